"""P1: the journal's step against a hand-written loop of one commit a step, on the same store (R6)."""

import asyncio
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace
from tests import histories
from tests.bench.figure import Figure, say
from tests.bench.plainloop import Loop, PostgresLoop, SqliteLoop, Step
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


async def _store(name: str, ours: str, plain: str, loop: Loop) -> dict[str, Any]:
    """Rounds by turns, so that all meet the same disk; the first warms up and is dropped."""
    journal, beside = await open_journal(ours), await open_journal(plain)
    try:
        rounds = [await _round(journal, beside, loop) for _ in range(ROUNDS + 1)][1:]
    finally:
        loop.close()
        await journal.close()
        await beside.close()
    ratios = {name: statistics.median(one["journal"] / one[name] for one in rounds) for name in ("loop", "in_thread")}
    rates = {side: round(statistics.median(one[side] for one in rounds)) for side in rounds[0]}
    say(
        f"P1 {name}: journal {rates['journal']} steps/s, hand-written loop {rates['loop']} (ratio {ratios['loop']:.2f})"
    )
    say(
        f"P1 {name}: the loop behind an event loop, as a harness must: {rates['in_thread']} ({ratios['in_thread']:.2f})"
    )
    return {"ratio": ratios["loop"], "ratio_in_thread": ratios["in_thread"], "steps_per_second": rounds}


async def _round(ours: Journal, plain: Journal, loop: Loop) -> dict[str, float]:
    """Steps a second of the journal, then of the loop, for the same run: the same rows in two databases."""
    run = str(uuid.uuid4())
    log = await _opened(ours, run)
    with _kept(ours) as appended:
        start = time.perf_counter()
        lease = await ours.lease(OWNER, 1e6)
        assert lease is not None
        assert lease.run == run
        await _turns(log, lease.fence)
        rates = {"journal": len(appended) / (time.perf_counter() - start)}
    await _opened(plain, run)
    rates["loop"] = len(appended) / _by_hand(loop, [loop.prepare(append) for append in appended])
    await _same(ours, plain, run)
    again = [_renamed(append, f"{run}-again") for append in appended]
    await _opened(plain, f"{run}-again")
    rates["in_thread"] = len(appended) / await _in_thread(loop, [loop.prepare(append) for append in again])
    return rates


def _by_hand(loop: Loop, steps: Sequence[Step]) -> float:
    """Seconds."""
    start = time.perf_counter()
    loop.take(OWNER)
    for step in steps:
        loop.step(step)
    return time.perf_counter() - start


async def _in_thread(loop: Loop, steps: Sequence[Step]) -> float:
    """Seconds of the same in a process that must not stand still while a disk writes."""
    running = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:
        start = time.perf_counter()
        await running.run_in_executor(pool, loop.take, OWNER)
        for step in steps:
            await running.run_in_executor(pool, loop.step, step)
        return time.perf_counter() - start


def _renamed(append: Append, run: str) -> Append:
    """The same step of another run: its hashes are stored, not checked."""
    return replace(append, run=run, events=tuple(replace(event, run=run) for event in append.events))


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
