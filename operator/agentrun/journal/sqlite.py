"""The journal on SQLite: one process, one writer thread, a lock file that keeps a second process out."""

import asyncio
import fcntl
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from agentrun.core.errors import AgentrunError
from agentrun.journal import operations
from agentrun.journal.operations import Rows, Statement
from agentrun.journal.port import JournalUnavailable, SchemaMismatch
from agentrun.journal.queries import migrations, queries
from agentrun.journal.store import Operation, Store

T = TypeVar("T")


class JournalLocked(AgentrunError):
    """Another process has this SQLite journal open; SQLite is for one process, PostgreSQL for several."""


def _micros() -> int:
    return time.time_ns() // 1000


class _Connection:
    """A connection and the thread it lives on."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._path = path
        self._read_only = read_only
        self._statements = queries("sqlite")
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="journal-read" if read_only else "journal-write")
        self._connection: sqlite3.Connection | None = None

    async def call(self, operation: Operation[T]) -> T:
        """Run one operation in one transaction on the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._transaction, operation)

    def open(self) -> None:
        """Open on the thread; the schema is brought up to date by the writer."""
        self._pool.submit(self._open).result()

    def close(self) -> None:
        """Close on the thread."""
        self._pool.submit(self._close).result()
        self._pool.shutdown()

    def _open(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None, cached_statements=256, timeout=10)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if self._read_only:
            connection.execute("PRAGMA query_only = ON")
        else:
            _migrate(connection)
        self._connection = connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _transaction(self, operation: Operation[T]) -> T:
        connection = self._connection
        if connection is None:
            raise JournalUnavailable("the journal is closed")
        try:
            connection.execute("BEGIN" if self._read_only else "BEGIN IMMEDIATE")
            try:
                result = self._drive(connection, operation)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise JournalUnavailable(f"SQLite: {error}") from error
        return result

    def _drive(self, connection: sqlite3.Connection, operation: Operation[T]) -> T:
        rows: Rows | None = None
        while True:
            try:
                statement = operation.send(rows) if rows is not None else next(operation)
            except StopIteration as stop:
                result: T = stop.value
                return result
            rows = self._execute(connection, statement)

    def _execute(self, connection: sqlite3.Connection, statement: Statement) -> Rows:
        sql, now = self._statements[statement.name], _micros()
        if len(statement.parameters) == 1:
            cursor = connection.execute(sql, {**statement.parameters[0], "now": now})
            return [dict(row) for row in cursor.fetchall()]
        connection.executemany(sql, [{**parameters, "now": now} for parameters in statement.parameters])
        return []


class _Runner:
    def __init__(self, writer: _Connection, reader: _Connection, changed: asyncio.Event) -> None:
        self._writer, self._reader, self._changed = writer, reader, changed

    async def write(self, operation: Operation[T]) -> T:
        result = await self._writer.call(operation)
        self._changed.set()
        return result

    async def read(self, operation: Operation[T]) -> T:
        return await self._reader.call(operation)


class SqliteJournal(Store):
    """`Journal` on one file."""

    def __init__(self, path: Path, lock: Any) -> None:
        self._lock = lock
        self._writer = _Connection(path, read_only=False)
        self._reader = _Connection(path, read_only=True)
        self._writer.open()
        self._reader.open()
        self._changed = asyncio.Event()
        super().__init__(_Runner(self._writer, self._reader, self._changed))

    @classmethod
    def open(cls, path: Path) -> "SqliteJournal":
        """Raises JournalLocked if another process has it open."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(path.name + ".lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise JournalLocked(f"{path} is open in another process: stop it, or use PostgreSQL") from None
        try:
            return cls(path, lock)
        except BaseException:
            lock.close()
            raise

    async def changed_since(self, cursor: int) -> tuple[int, list[str]]:
        """In line with the writes: a reader's snapshot may miss a change that is stamped, not yet committed."""
        return await self._writer.call(operations.changed_since(cursor, self.overlap))

    async def wait_change(self, timeout: float) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), timeout)
        except TimeoutError:
            return
        self._changed.clear()

    async def close(self) -> None:
        self._reader.close()
        self._writer.close()
        self._lock.close()


def _migrate(connection: sqlite3.Connection) -> None:
    known = migrations("sqlite")
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(known):
        raise SchemaMismatch(
            f"the journal has schema {version}, this build knows {len(known)}: use the newer build, or restore a backup"
        )
    for number in range(version, len(known)):
        connection.executescript(f"BEGIN; {known[number]}; PRAGMA user_version = {number + 1}; COMMIT;")
