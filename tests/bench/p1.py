"""P1: the journal's step against a hand-written loop of one commit a step, on the same store (R6)."""

import asyncio
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace
from tests import histories
from tests.bench.figure import Figure, say
from tests.bench.plainloop import PostgresLoop, SqliteLoop, statements
from tests.integration.postgres import PostgresServer, programs

from agentrun.core.events import Event, EventRecord, RunAdmitted, ToolCompleted
from agentrun.core.plan import RunPlan, ToolPlan
from agentrun.core.reducer import commands
from agentrun.core.state import State
from agentrun.journal import open_journal
from agentrun.journal.port import Append, Journal
from agentrun.journal.runlog import RunLog

TARGET = 0.75
ROUNDS, TURNS = 21, 50
OWNER = "bench-owner"
TOOL = ToolPlan("look", "sha256:" + "4" * 64, "HTTP", "ReadOnly", "Repeat")


def measure() -> Figure:
    """The slower store's ratio decides; both stores' numbers are in `raw`."""
    raw = asyncio.run(_both())
    return Figure("P1", min(store["ratio"] for store in raw.values()), ">=", TARGET, raw)


async def _both() -> dict[str, Any]:
    with _folder() as folder, _postgres() as server:
        ours, plain = server.database("ours"), server.database("plain")
        return {
            "postgres": await _store("postgres", ours, plain, PostgresLoop(plain)),
            "sqlite": await _store(
                "sqlite",
                f"sqlite:///{folder}/ours.db",
                f"sqlite:///{folder}/plain.db",
                SqliteLoop(f"{folder}/plain.db"),
            ),
        }


async def _store(name: str, ours: str, plain: str, loop: PostgresLoop | SqliteLoop) -> dict[str, Any]:
    """Rounds by turns, so that both meet the same disk; the first warms up and is dropped."""
    journal, beside = await open_journal(ours), await open_journal(plain)
    try:
        rounds = [await _round(journal, beside, loop) for _ in range(ROUNDS + 1)][1:]
    finally:
        loop.close()
        await journal.close()
        await beside.close()
    rates = [statistics.median(one[side] for one in rounds) for side in (0, 1)]
    ratio = statistics.median(one[0] / one[1] for one in rounds)
    say(f"P1 {name}: journal {rates[0]:.0f} steps/s, hand-written loop {rates[1]:.0f} steps/s, ratio {ratio:.3f}")
    return {
        "ratio": ratio, "steps_per_round": 2 * TURNS, "journal_steps_per_second": [one[0] for one in rounds],
        "loop_steps_per_second": [one[1] for one in rounds],
    }  # fmt: skip


async def _round(ours: Journal, plain: Journal, loop: PostgresLoop | SqliteLoop) -> tuple[float, float]:
    """Steps a second of the journal, then of the loop, for the same run: the same rows in two databases."""
    run = str(uuid.uuid4())
    log = await _opened(ours, run)
    with _kept(ours) as appended:
        start = time.perf_counter()
        lease = await ours.lease(OWNER, 1e6)
        assert lease is not None
        assert lease.run == run
        await _turns(log, lease.fence)
        journal_seconds = time.perf_counter() - start
    await _opened(plain, run)
    ready = [statements(append) for append in appended]
    start = time.perf_counter()
    loop.run(OWNER, ready)
    loop_seconds = time.perf_counter() - start
    await _same(ours, plain, run)
    return len(appended) / journal_seconds, len(appended) / loop_seconds


async def _opened(journal: Journal, run: str) -> RunLog:
    """A run that is admitted: its first model call is due. Both sides begin here."""
    created = replace(histories.created(RunPlan(tools=(TOOL,))), uid=run, name=run)
    log = await RunLog.create(journal, _clock, created, "ann")
    await log.accept(RunAdmitted(), f"admitted:{run}")
    return log


async def _turns(log: RunLog, fence: int) -> None:
    """The owner's loop: a result, the dispatch of what follows from it, one commit."""
    await log.record([], fence, then=_following)
    for turn in range(1, TURNS + 1):
        await log.record([histories.replied(f"t{turn}", ["look"])], fence, then=_following)
        answer: list[Event] = [ToolCompleted(f"t{turn}c0", 1, "Ok", histories.BLOB, output_bytes=10)]
        await log.record(answer, fence, then=_following)
    await log.record([histories.replied(f"t{TURNS + 1}")], fence, then=_following)


def _following(state: State) -> Sequence[Event]:
    """The dispatch of what is due. Keys and fingerprints of effects are the harness's work: ready made here."""
    steps = (state.step(command.step) for command in commands(state))
    return [histories.dispatched(step.id, step.attempt) for step in steps if step is not None and not step.flying]


def _clock() -> int:
    return time.time_ns() // 1000


@contextmanager
def _kept(journal: Journal) -> Generator[list[Append]]:
    """What is appended while the context lasts, as it was written."""
    appended: list[Append] = []
    write = journal.append

    async def keep(append: Append) -> None:
        await write(append)
        appended.append(append)

    with patch.object(journal, "append", keep):
        yield appended


async def _same(ours: Journal, plain: Journal, run: str) -> None:
    """The loop is a reference only if it left the same events, commands and head."""
    assert len(await ours.events(run)) > 4 * TURNS
    assert _results(await ours.events(run)) == _results(await plain.events(run))
    assert await ours.commands(run) == await plain.commands(run)
    one, other = await ours.head(run), await plain.head(run)
    assert one is not None
    assert other is not None
    assert (one.seq, one.hash, one.fence, one.state) == (other.seq, other.hash, other.fence, other.state)


def _results(records: Sequence[EventRecord]) -> list[EventRecord]:
    """Without the two events from before the clock started, which each side stamped itself."""
    return list(records[2:])


@contextmanager
def _folder() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="agentrun-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _postgres() -> Generator[PostgresServer]:
    """A server of its own, with PostgreSQL's own defaults of durability."""
    programs()
    with _folder() as folder:
        folder.chmod(0o755)
        server = PostgresServer(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
