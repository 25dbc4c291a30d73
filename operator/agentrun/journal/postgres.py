"""The journal on PostgreSQL: many processes; leases by SKIP LOCKED, woken by NOTIFY, polling as the safety net."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.rows import dict_row

from agentrun.journal import operations
from agentrun.journal.operations import Rows, Statement
from agentrun.journal.port import Append, JournalUnavailable, RunKey, SchemaMismatch
from agentrun.journal.queries import migrations, queries
from agentrun.journal.store import Operation, Store

T = TypeVar("T")
CHANNEL = "agentrun_changed"
MIGRATION_LOCK = 0x61676E74
SECOND = 1_000_000


class _Pool:
    """A few connections, opened as needed, broken ones thrown away."""

    def __init__(self, url: str, size: int, *, prepare: bool) -> None:
        self._url, self._prepare = url, prepare
        self._free: list[psycopg.AsyncConnection[dict[str, Any]]] = []
        self._slots = asyncio.Semaphore(size)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncGenerator[psycopg.AsyncConnection[dict[str, Any]]]:
        async with self._slots:
            connection = self._free.pop() if self._free else await self.connect()
            try:
                yield connection
            finally:
                if connection.closed or connection.broken:
                    await connection.close()
                else:
                    self._free.append(connection)

    async def connect(self) -> psycopg.AsyncConnection[dict[str, Any]]:
        rows = psycopg.AsyncConnection[dict[str, Any]]
        connection = await rows.connect(self._url, autocommit=True, row_factory=dict_row, connect_timeout=10)
        connection.prepare_threshold = 2 if self._prepare else None
        return connection

    async def close(self) -> None:
        for connection in self._free:
            await connection.close()
        self._free.clear()


class _Runner:
    def __init__(self, pool: _Pool) -> None:
        self._pool = pool
        self._statements = queries("postgres")

    async def write(self, operation: Operation[T], *, notify: bool = False) -> T:
        return await self._transaction(operation, notify=notify)

    async def read(self, operation: Operation[T]) -> T:
        """At `READ COMMITTED` every statement has its own snapshot: a transaction around reads would only cost."""
        return await self.alone(operation)

    async def alone(self, operation: Operation[T]) -> T:
        """Each statement is its own transaction: for reads, and for writes of one statement."""
        try:
            async with self._pool.connection() as connection:
                return await self._drive(connection, operation)
        except psycopg.Error as error:
            raise JournalUnavailable(f"PostgreSQL: {error}") from error

    async def _transaction(self, operation: Operation[T], *, notify: bool) -> T:
        try:
            async with self._pool.connection() as connection, connection.transaction():
                result = await self._drive(connection, operation)
                if notify:
                    await connection.execute(f"NOTIFY {CHANNEL}")
                return result
        except psycopg.Error as error:
            raise JournalUnavailable(f"PostgreSQL: {error}") from error

    async def _drive(self, connection: psycopg.AsyncConnection[dict[str, Any]], operation: Operation[T]) -> T:
        rows: Rows | None = None
        while True:
            try:
                statement = operation.send(rows) if rows is not None else next(operation)
            except StopIteration as stop:
                result: T = stop.value
                return result
            rows = await self._execute(connection, statement)

    async def _execute(self, connection: psycopg.AsyncConnection[dict[str, Any]], statement: Statement) -> Rows:
        sql = self._statements[statement.name].encode()
        if len(statement.parameters) == 1:
            cursor = await connection.execute(sql, statement.parameters[0])
            return await cursor.fetchall() if cursor.description else []
        async with connection.cursor() as many:
            await many.executemany(sql, statement.parameters)
        return []


class PostgresJournal(Store):
    """`Journal` on a PostgreSQL database."""

    #: a transaction is seen at its commit, stamped at its start: look again over the longest one expected
    overlap = 10 * SECOND

    def __init__(self, url: str, size: int, *, prepare: bool, listen: bool) -> None:
        self._pool = _Pool(url, size, prepare=prepare)
        self._notifying = _Runner(self._pool)
        self._changed = asyncio.Event()
        self._listen = listen
        self._listener: asyncio.Task[None] | None = None
        super().__init__(self._notifying)

    @classmethod
    async def open(cls, url: str, size: int = 8) -> "PostgresJournal":
        """`?prepare=off` for a pooler in transaction mode (it also turns LISTEN off: polling alone must do)."""
        url, options = _own_options(url)
        pooled = options.get("prepare") == "off"
        journal = cls(url, size, prepare=not pooled, listen=not pooled)
        try:
            await journal._migrate()
        except psycopg.Error as error:
            raise JournalUnavailable(f"PostgreSQL: {error}") from error
        if journal._listen:
            journal._listener = asyncio.create_task(journal._listening())
        return journal

    async def create_run(self, key: RunKey, append: Append) -> bool:
        return await self._notifying.write(operations.create_run(key, append), notify=True)

    async def append(self, append: Append) -> None:
        """Only who does not own the run wakes others: a NOTIFY in every step costs two thirds of the throughput."""
        results = append.fence is not None and all(event.source_key is None for event in append.events)
        if results and await self._notifying.alone(operations.append_results(append)):
            return
        await self._notifying.write(operations.append(append), notify=append.fence is None)

    async def wait_change(self, timeout: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), min(timeout, 1.0))
        self._changed.clear()

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
        await self._pool.close()

    async def _listening(self) -> None:
        while True:
            try:
                async with await self._pool.connect() as connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    async for _ in connection.notifies():
                        self._changed.set()
            except psycopg.Error:
                await asyncio.sleep(1)  # polling goes on meanwhile

    async def _migrate(self) -> None:
        known = migrations("postgres")
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
            await connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")
            cursor = await connection.execute("SELECT coalesce(max(version), 0) AS version FROM schema_version")
            row = await cursor.fetchone()
            version = int(row["version"]) if row else 0
            if version > len(known):
                raise SchemaMismatch(
                    f"the journal has schema {version}, this build knows {len(known)}: use the newer build"
                )
            for number in range(version, len(known)):
                await connection.execute(known[number].encode())
                await connection.execute("INSERT INTO schema_version (version) VALUES (%s)", (number + 1,))


def _own_options(url: str) -> tuple[str, dict[str, str]]:
    """Take our own options out of the URL; libpq refuses what it does not know."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    ours = {name: query.pop(name) for name in ("prepare",) if name in query}
    return urlunsplit(parts._replace(query=urlencode(query))), ours
