-- The broker's own store `gate` (design 6): what it decided, and how new a harness it has already obeyed.
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

CREATE TABLE IF NOT EXISTS fence (
    run   TEXT PRIMARY KEY,
    fence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS verdict (
    run           TEXT NOT NULL,
    step          TEXT NOT NULL,
    attempt       INTEGER NOT NULL,
    fence         INTEGER NOT NULL,
    decided_at    INTEGER NOT NULL, -- microseconds UTC
    jws           TEXT NOT NULL,
    PRIMARY KEY (run, step, attempt, fence)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS signing_key (
    kid           TEXT PRIMARY KEY,
    first_used_at INTEGER NOT NULL -- microseconds UTC
) STRICT, WITHOUT ROWID;
