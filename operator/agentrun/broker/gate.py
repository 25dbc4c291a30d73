"""The broker's own store `gate` on SQLite: highest fence of each run, kept verdicts, keys in use (R11, design 6).

One writer thread. Verdicts of read-only and keyed calls are not committed here: their fence is raised in memory at
once and written behind, so it only ever rises. A verdict to be kept is committed before the caller may go on.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from agentrun.broker.refusal import Refused
from agentrun.core.errors import AgentrunError, ErrorClass

_Result = TypeVar("_Result")
SCHEMA_VERSION = "1"
MAX_REMEMBERED = 50_000  # fences held in memory; the rest is read back from disk


class GateUnusable(AgentrunError):
    """The store cannot be opened; the message says what to do."""


@dataclass(frozen=True)
class KeptVerdict:
    """A signed verdict. `decided_at` in microseconds UTC."""

    run: str
    step: str
    attempt: int
    fence: int
    decided_at: int
    jws: str


def _sql(name: str) -> str:
    return files("agentrun.broker").joinpath("sql", f"{name}.sql").read_text("utf-8")


class Gate:
    """Open with `Gate.open(path)`; only one process may."""

    def __init__(self, connection: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._thread = thread
        self._fences: dict[str, int] = {}
        self._unwritten: dict[str, int] = {}
        self._raise, self._read, self._keep, self._use = map(
            _sql, ("raise_fence", "read_fence", "keep_verdict", "use_key")
        )

    @classmethod
    async def open(cls, path: Path) -> "Gate":
        """Open or make the store. Raises GateUnusable."""
        thread = ThreadPoolExecutor(1, "gate")
        try:
            connection = await asyncio.get_running_loop().run_in_executor(thread, _open, path)
        except GateUnusable:
            thread.shutdown()
            raise
        return cls(connection, thread)

    async def check_fence(self, run: str, fence: int) -> None:
        """Raises Refused (StaleFence) if a newer owner of the run has been obeyed already (C3)."""
        highest = await self._highest(run)
        if fence < highest:
            message = f"fence {fence} of the run is over: fence {highest} has been obeyed, another harness owns the run"
            raise Refused(ErrorClass.STALE_FENCE, message)

    async def obey(self, run: str, fence: int, keep: KeptVerdict | None = None) -> None:
        """Record that this fence was obeyed; with a verdict to keep, return only when both are on disk."""
        await self.check_fence(run, fence)
        if fence > self._fences.get(run, -1):
            self._fences[run] = self._unwritten[run] = fence
        if keep is not None:
            await self._on_thread(self._commit, {run: fence}, keep)

    async def use_key(self, kid: str, now: int) -> None:
        """Record that a key signs from now on (microseconds UTC)."""
        await self._on_thread(self._execute, self._use, (kid, now))

    async def flush(self) -> None:
        """Write the fences that are behind."""
        behind, self._unwritten = self._unwritten, {}
        if not behind:
            return
        try:
            await self._on_thread(self._commit, behind, None)
        except sqlite3.Error:
            self._unwritten = {**behind, **self._unwritten}
            raise
        if len(self._fences) > MAX_REMEMBERED:
            self._fences = dict(self._unwritten)

    async def close(self) -> None:
        """Write what is behind and close."""
        await self.flush()
        await self._on_thread(self._connection.close)
        self._thread.shutdown()

    async def _highest(self, run: str) -> int:
        if run not in self._fences:
            stored = await self._on_thread(self._stored, run)
            # Another request may have raised it meanwhile.
            self._fences[run] = max(stored, self._fences.get(run, -1))
        return self._fences[run]

    async def _on_thread(self, work: Callable[..., _Result], *args: object) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _stored(self, run: str) -> int:
        row = self._connection.execute(self._read, (run,)).fetchone()
        return -1 if row is None else int(row[0])

    def _execute(self, sql: str, values: tuple[object, ...]) -> None:
        with self._connection:
            self._connection.execute(sql, values)

    def _commit(self, fences: dict[str, int], keep: KeptVerdict | None) -> None:
        with self._connection:
            self._connection.executemany(self._raise, list(fences.items()))
            if keep is not None:
                values = (keep.run, keep.step, keep.attempt, keep.fence, keep.decided_at, keep.jws)
                self._connection.execute(self._keep, values)


def _open(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, timeout=2.0)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(_sql("schema"))
    except sqlite3.OperationalError as error:
        raise GateUnusable(_advice(path, error)) from None
    found = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    if found is None:
        with connection:
            connection.execute("INSERT INTO meta (name, value) VALUES ('schema', ?)", (SCHEMA_VERSION,))
    elif found[0] != SCHEMA_VERSION:
        connection.close()
        message = f"{path} has schema {found[0]} and this version needs {SCHEMA_VERSION}: run the version that wrote it"
        raise GateUnusable(message)
    return connection


def _advice(path: Path, error: sqlite3.OperationalError) -> str:
    if "locked" in str(error):
        return f"{path} is in use by another broker: one process only may open it; stop the other one first"
    return f"{path} cannot be opened ({error}): set AGENTRUN_GATE_PATH to a file in a writable directory"
