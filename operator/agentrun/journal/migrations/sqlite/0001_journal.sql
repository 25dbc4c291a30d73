-- Histories as stored bytes, one row per run as head and lease, the outbox of commands, checkpoints, content store.
CREATE TABLE runs (
  run TEXT PRIMARY KEY,
  cluster TEXT NOT NULL,
  namespace_uid TEXT NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  definition TEXT NOT NULL,
  template_digest TEXT NOT NULL,
  input_digest TEXT NOT NULL,
  requester TEXT NOT NULL,
  reducer_version INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  hash TEXT NOT NULL,
  fence INTEGER NOT NULL DEFAULT 0,
  owner TEXT,                             -- last owner, kept after release: the same one comes back without a new fence
  lease_until INTEGER NOT NULL DEFAULT 0, -- microseconds UTC, 0: free
  state TEXT NOT NULL,
  terminal INTEGER NOT NULL DEFAULT 0,
  outcome TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_live ON runs (lease_until) WHERE terminal = 0;
CREATE INDEX runs_changed ON runs (updated_at);
CREATE INDEX runs_outcome ON runs (cluster, namespace_uid, name, template_digest, input_digest) WHERE terminal = 1;

CREATE TABLE events (
  run TEXT NOT NULL,
  seq INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  kind TEXT NOT NULL,
  kind_version INTEGER NOT NULL,
  source_key TEXT,
  recorded_at INTEGER NOT NULL,
  body BLOB NOT NULL,
  prev_hash TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX events_source ON events (run, source_key) WHERE source_key IS NOT NULL;

CREATE TABLE commands (
  run TEXT NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  body BLOB NOT NULL,
  not_before INTEGER NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
  run TEXT NOT NULL,
  seq INTEGER NOT NULL,
  hash TEXT NOT NULL,
  reducer_version INTEGER NOT NULL,
  state BLOB NOT NULL,
  state_digest TEXT NOT NULL,
  PRIMARY KEY (run, seq)
) STRICT;

CREATE TABLE blobs (
  tenant TEXT NOT NULL,
  digest TEXT NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (tenant, digest)
) STRICT;

CREATE TABLE journal (epoch INTEGER NOT NULL) STRICT;
INSERT INTO journal (epoch) VALUES (1);
