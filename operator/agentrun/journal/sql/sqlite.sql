-- name: now
SELECT :now AS now;

-- name: head_for_append
SELECT seq, fence FROM runs WHERE run = :run;

-- name: source_key_known
SELECT 1 AS known FROM events WHERE run = :run AND source_key = :source_key;

-- name: insert_run
INSERT INTO runs (run, cluster, namespace_uid, namespace, name, definition, template_digest, input_digest, requester,
                  reducer_version, seq, hash, state, terminal, outcome, created_at, updated_at)
VALUES (:run, :cluster, :namespace_uid, :namespace, :name, :definition, :template_digest, :input_digest, :requester,
        :reducer_version, 0, '', 'created', 0, NULL, :now, :now)
ON CONFLICT (run) DO NOTHING RETURNING run;

-- name: insert_event
INSERT INTO events (run, seq, fence, kind, kind_version, source_key, recorded_at, body, prev_hash, hash)
VALUES (:run, :seq, :fence, :kind, :kind_version, :source_key, :recorded_at, :body, :prev_hash, :hash);

-- name: advance_head
UPDATE runs SET seq = :seq, hash = :hash, state = :state, terminal = :terminal, outcome = :outcome, updated_at = :now
WHERE run = :run AND seq = :expected_seq AND (:fence IS NULL OR fence = :fence)
RETURNING cluster, namespace_uid;

-- name: insert_command
INSERT INTO commands (run, id, kind, body, not_before) VALUES (:run, :id, :kind, :body, :not_before)
ON CONFLICT (run, id) DO UPDATE SET body = excluded.body, not_before = excluded.not_before;

-- name: finish_command
DELETE FROM commands WHERE run = :run AND id = :id;

-- name: drop_commands
DELETE FROM commands WHERE run = :run;

-- name: insert_blob
INSERT INTO blobs (tenant, digest, data) VALUES (:tenant, :digest, :data) ON CONFLICT (tenant, digest) DO NOTHING;

-- name: get_blob
SELECT data FROM blobs WHERE tenant = :tenant AND digest = :digest;

-- name: head
SELECT *, :now AS now FROM runs WHERE run = :run;

-- name: events
SELECT run, seq, fence, kind, kind_version, source_key, recorded_at, body, prev_hash, hash
FROM events WHERE run = :run AND seq > :after ORDER BY seq LIMIT :limit;

-- name: commands
SELECT id, kind, body, not_before FROM commands WHERE run = :run ORDER BY not_before, id;

-- name: newest_checkpoint
SELECT run, seq, hash, reducer_version, state, state_digest FROM checkpoints
WHERE run = :run ORDER BY seq DESC LIMIT 1;

-- name: put_checkpoint
INSERT INTO checkpoints (run, seq, hash, reducer_version, state, state_digest)
VALUES (:run, :seq, :hash, :reducer_version, :state, :state_digest)
ON CONFLICT (run, seq) DO UPDATE SET hash = excluded.hash, state = excluded.state,
  state_digest = excluded.state_digest, reducer_version = excluded.reducer_version;

-- name: drop_older_checkpoints
DELETE FROM checkpoints WHERE run = :run AND seq < :seq;

-- name: drop_checkpoints
DELETE FROM checkpoints WHERE run = :run;

-- name: take_lease
UPDATE runs SET fence = CASE WHEN owner = :owner THEN fence ELSE fence + 1 END,
                owner = :owner, lease_until = :now + :micros
WHERE run = (
  SELECT r.run FROM runs r JOIN commands c ON c.run = r.run
  WHERE r.terminal = 0 AND r.lease_until <= :now AND c.not_before <= :now
  ORDER BY c.not_before, r.run LIMIT 1
)
RETURNING run, fence, lease_until, seq;

-- name: renew_lease
UPDATE runs SET lease_until = :now + :micros WHERE run = :run AND owner = :owner AND fence = :fence
RETURNING run, fence, lease_until, seq;

-- name: release_lease
UPDATE runs SET lease_until = 0 WHERE run = :run AND owner = :owner AND fence = :fence;

-- name: runs
SELECT *, :now AS now FROM runs
WHERE run > :after AND (:tenant = '' OR cluster || '/' || namespace_uid = :tenant) AND (:live = 0 OR terminal = 0)
ORDER BY run LIMIT :limit;

-- name: finished_before
SELECT *, :now AS now FROM runs
WHERE terminal = 1 AND cluster = :cluster AND namespace_uid = :namespace_uid AND name = :name
  AND template_digest = :template_digest AND input_digest = :input_digest
ORDER BY updated_at DESC LIMIT 1;

-- name: newest_named
SELECT *, :now AS now FROM runs
WHERE cluster = :cluster AND namespace_uid = :namespace_uid AND name = :name
ORDER BY created_at DESC, run DESC LIMIT 1;

-- name: changed_since
SELECT run, updated_at FROM runs WHERE updated_at >= :cursor ORDER BY updated_at;

-- name: epoch
SELECT epoch FROM journal;
