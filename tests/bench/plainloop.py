"""The reference of P1: what one would write by hand. One commit a step, the journal's own rows, and nothing else.

The rows come ready made (encoded, hashed, numbered), so the loop pays for the store alone: no reducer, no hash, no
JSON, no asyncio, no second thread. Durability is the journal's: WAL with `synchronous = FULL`, or PostgreSQL's
defaults. The fence and the head are checked in the update itself, which saves the row lock the journal takes first.
"""

import sqlite3
import time
from collections.abc import Sequence
from typing import Any, Protocol

import psycopg

from agentrun.journal.port import Append
from agentrun.journal.queries import queries

Step = list[tuple[str, Sequence[Any]]]

EVENT = (
    "INSERT INTO events (run, seq, fence, kind, kind_version, source_key, recorded_at, body, prev_hash, hash) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
FINISH = "DELETE FROM commands WHERE run = ? AND id = ?"
ISSUE = "INSERT INTO commands (run, id, kind, body, not_before) VALUES (?, ?, ?, ?, ?)"
HEAD = (
    "UPDATE runs SET seq = ?, hash = ?, state = ?, terminal = ?, outcome = ?, updated_at = ? "
    "WHERE run = ? AND seq = ? AND fence = ?"
)


class HeadLost(RuntimeError):
    """The update found another head or fence: the loop and the journal did not do the same work."""


class Loop(Protocol):
    """What is written by hand, on the store of an open journal."""

    def take(self, owner: str) -> None:
        """Take the lease of the run that is due."""
        ...

    def prepare(self, step: Append) -> Step:
        """What is sent for one step, in order; made before the clock starts."""
        ...

    def step(self, step: Step) -> None:
        """One transaction. Raises HeadLost."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def _statements(step: Append) -> Step:
    last = step.events[-1]
    rows: Step = [
        (EVENT, (e.run, e.seq, e.fence, e.kind, e.kind_version, e.source_key, e.recorded_at,
                 e.body, e.prev_hash, e.hash))
        for e in step.events
    ]  # fmt: skip
    rows += [(FINISH, (step.run, name)) for name in step.finished]
    rows += [(ISSUE, (step.run, c.id, c.kind, c.body, c.not_before)) for c in step.issued]
    head = (
        last.seq, last.hash, step.state, int(step.terminal), step.outcome, last.recorded_at, step.run,
        step.expected_seq, step.fence,
    )  # fmt: skip
    return [*rows, (HEAD, head)]


class SqliteLoop:
    """On the file of a journal, beside its own connections. May be used from another thread than it was made in."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(
            path, isolation_level=None, cached_statements=256, timeout=10, check_same_thread=False
        )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")

    def take(self, owner: str) -> None:
        """See Loop."""
        now = time.time_ns() // 1000
        self._connection.execute(queries("sqlite")["take_lease"], {"owner": owner, "micros": 10**12, "now": now})

    def prepare(self, step: Append) -> Step:
        """See Loop."""
        return _statements(step)

    def step(self, step: Step) -> None:
        """See Loop."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for sql, values in step[:-1]:
            execute(sql, values)
        if execute(*step[-1]).rowcount != 1:
            raise HeadLost(step[-1][1])
        execute("COMMIT")

    def close(self) -> None:
        """See Loop."""
        self._connection.close()


class PostgresLoop:
    """On the database of a journal, over one connection with prepared statements."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url)
        self._connection.prepare_threshold = 0
        self._cursor = self._connection.cursor()

    def take(self, owner: str) -> None:
        """See Loop."""
        self._cursor.execute(queries("postgres")["take_lease"].encode(), {"owner": owner, "micros": 10**12})
        self._connection.commit()

    def prepare(self, step: Append) -> Step:
        """See Loop."""
        return [(sql.replace("?", "%s"), values) for sql, values in _statements(step)]

    def step(self, step: Step) -> None:
        """See Loop."""
        for sql, values in step:
            self._cursor.execute(sql.encode(), values)
        if self._cursor.rowcount != 1:
            raise HeadLost(step[-1][1])
        self._connection.commit()

    def close(self) -> None:
        """See Loop."""
        self._connection.close()
