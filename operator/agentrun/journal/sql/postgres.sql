-- name: now
SELECT now_us() AS now;

-- name: head_for_append
SELECT seq, fence FROM runs WHERE run = %(run)s FOR UPDATE;

-- name: source_key_known
SELECT 1 AS known FROM events WHERE run = %(run)s AND source_key = %(source_key)s;

-- name: insert_run
INSERT INTO runs (run, cluster, namespace_uid, namespace, name, definition, template_digest, input_digest, requester,
                  reducer_version, seq, hash, state, terminal, outcome, created_at, updated_at)
VALUES (%(run)s, %(cluster)s, %(namespace_uid)s, %(namespace)s, %(name)s, %(definition)s, %(template_digest)s, %(input_digest)s, %(requester)s,
        %(reducer_version)s, 0, '', 'created', 0, NULL, now_us(), now_us())
ON CONFLICT (run) DO NOTHING RETURNING run;

-- name: insert_event
INSERT INTO events (run, seq, fence, kind, kind_version, source_key, recorded_at, body, prev_hash, hash)
VALUES (%(run)s, %(seq)s, %(fence)s, %(kind)s, %(kind_version)s, %(source_key)s, %(recorded_at)s, %(body)s, %(prev_hash)s, %(hash)s);

-- name: advance_head
UPDATE runs SET seq = %(seq)s, hash = %(hash)s, state = %(state)s, terminal = %(terminal)s, outcome = %(outcome)s, updated_at = now_us()
WHERE run = %(run)s AND seq = %(expected_seq)s AND (%(fence)s::bigint IS NULL OR fence = %(fence)s::bigint)
RETURNING cluster, namespace_uid;

-- name: append_results
WITH head AS (
  UPDATE runs SET seq = %(seq)s, hash = %(hash)s, state = %(state)s, terminal = %(terminal)s, outcome = %(outcome)s, updated_at = now_us()
  WHERE run = %(run)s AND seq = %(expected_seq)s AND fence = %(fence)s
  RETURNING run, cluster || '/' || namespace_uid AS tenant
), recorded AS (
  INSERT INTO events (run, seq, fence, kind, kind_version, recorded_at, body, prev_hash, hash)
  SELECT head.run, e.seq, e.fence, e.kind, e.kind_version, e.recorded_at, decode(e.body, 'base64'), e.prev_hash, e.hash
  FROM head, json_to_recordset(%(events)s::json) AS e (
    seq bigint, fence bigint, kind text, kind_version bigint, recorded_at bigint, body text, prev_hash text, hash text)
), closed AS (
  DELETE FROM commands USING head
  WHERE commands.run = head.run AND (%(terminal)s::bigint = 1 OR commands.id = ANY(%(finished)s::text[]))
), issued AS (
  INSERT INTO commands (run, id, kind, body, not_before)
  SELECT head.run, c.id, c.kind, decode(c.body, 'base64'), c.not_before
  FROM head, json_to_recordset(%(issued)s::json) AS c (id text, kind text, body text, not_before bigint)
  ON CONFLICT (run, id) DO UPDATE SET body = excluded.body, not_before = excluded.not_before
), kept AS (
  INSERT INTO blobs (tenant, digest, data)
  SELECT head.tenant, b.digest, b.data FROM head, unnest(%(digests)s::text[], %(contents)s::bytea[]) AS b (digest, data)
  ON CONFLICT (tenant, digest) DO NOTHING
)
SELECT run FROM head;

-- name: insert_command
INSERT INTO commands (run, id, kind, body, not_before) VALUES (%(run)s, %(id)s, %(kind)s, %(body)s, %(not_before)s)
ON CONFLICT (run, id) DO UPDATE SET body = excluded.body, not_before = excluded.not_before;

-- name: finish_command
DELETE FROM commands WHERE run = %(run)s AND id = %(id)s;

-- name: drop_commands
DELETE FROM commands WHERE run = %(run)s;

-- name: insert_blob
INSERT INTO blobs (tenant, digest, data) VALUES (%(tenant)s, %(digest)s, %(data)s) ON CONFLICT (tenant, digest) DO NOTHING;

-- name: get_blob
SELECT data FROM blobs WHERE tenant = %(tenant)s AND digest = %(digest)s;

-- name: head
SELECT *, now_us() AS now FROM runs WHERE run = %(run)s;

-- name: events
SELECT run, seq, fence, kind, kind_version, source_key, recorded_at, body, prev_hash, hash
FROM events WHERE run = %(run)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s::bigint;

-- name: commands
SELECT id, kind, body, not_before FROM commands WHERE run = %(run)s ORDER BY not_before, id;

-- name: newest_checkpoint
SELECT run, seq, hash, reducer_version, state, state_digest FROM checkpoints
WHERE run = %(run)s ORDER BY seq DESC LIMIT 1;

-- name: put_checkpoint
INSERT INTO checkpoints (run, seq, hash, reducer_version, state, state_digest)
VALUES (%(run)s, %(seq)s, %(hash)s, %(reducer_version)s, %(state)s, %(state_digest)s)
ON CONFLICT (run, seq) DO UPDATE SET hash = excluded.hash, state = excluded.state,
  state_digest = excluded.state_digest, reducer_version = excluded.reducer_version;

-- name: drop_older_checkpoints
DELETE FROM checkpoints WHERE run = %(run)s AND seq < %(seq)s;

-- name: drop_checkpoints
DELETE FROM checkpoints WHERE run = %(run)s;

-- name: take_lease
UPDATE runs SET fence = CASE WHEN owner = %(owner)s THEN fence ELSE fence + 1 END,
                owner = %(owner)s, lease_until = now_us() + %(micros)s::bigint
WHERE run = (
  SELECT r.run FROM runs r JOIN commands c ON c.run = r.run
  WHERE r.terminal = 0 AND r.lease_until <= now_us() AND c.not_before <= now_us()
  ORDER BY c.not_before, r.run LIMIT 1 FOR UPDATE OF r SKIP LOCKED
)
RETURNING run, fence, lease_until, seq;

-- name: renew_lease
UPDATE runs SET lease_until = now_us() + %(micros)s::bigint WHERE run = %(run)s AND owner = %(owner)s AND fence = %(fence)s
RETURNING run, fence, lease_until, seq;

-- name: release_lease
UPDATE runs SET lease_until = 0 WHERE run = %(run)s AND owner = %(owner)s AND fence = %(fence)s;

-- name: runs
SELECT *, now_us() AS now FROM runs
WHERE run > %(after)s AND (%(tenant)s::text = '' OR cluster || '/' || namespace_uid = %(tenant)s) AND (%(live)s::bigint = 0 OR terminal = 0)
ORDER BY run LIMIT %(limit)s::bigint;

-- name: finished_before
SELECT *, now_us() AS now FROM runs
WHERE terminal = 1 AND cluster = %(cluster)s AND namespace_uid = %(namespace_uid)s AND name = %(name)s
  AND template_digest = %(template_digest)s AND input_digest = %(input_digest)s
ORDER BY updated_at DESC LIMIT 1;

-- name: newest_named
SELECT *, now_us() AS now FROM runs
WHERE cluster = %(cluster)s AND namespace_uid = %(namespace_uid)s AND name = %(name)s
ORDER BY created_at DESC, run DESC LIMIT 1;

-- name: changed_since
SELECT run, updated_at FROM runs WHERE updated_at >= %(cursor)s ORDER BY updated_at;

-- name: epoch
SELECT epoch FROM journal;
