"""The broker's own store: fences only rise, also across restarts; one process only (R11, C3)."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from agentrun.broker.gate import Gate, GateUnusable, KeptVerdict
from agentrun.broker.refusal import Refused
from agentrun.core.errors import ErrorClass


async def test_a_stale_fence_is_refused_and_an_equal_one_obeyed_C3(tmp_path: Path) -> None:
    gate = await Gate.open(tmp_path / "gate.db")
    await gate.obey("run", 4)
    await gate.obey("run", 4)
    with pytest.raises(Refused, match="fence 3 of the run is over: fence 4") as caught:
        await gate.obey("run", 3)
    assert caught.value.error_class is ErrorClass.STALE_FENCE
    await gate.obey("another", 1)
    await gate.close()


async def test_the_fence_survives_a_restart_C3(tmp_path: Path) -> None:
    path = tmp_path / "gate.db"
    first = await Gate.open(path)
    await first.obey("run", 7)
    await first.close()
    second = await Gate.open(path)
    with pytest.raises(Refused, match="fence 7"):
        await second.check_fence("run", 6)
    await second.check_fence("run", 7)
    await second.close()


async def test_a_verdict_to_keep_is_on_disk_before_the_caller_goes_on_R6(tmp_path: Path) -> None:
    path = tmp_path / "gate.db"
    gate = await Gate.open(path)
    await gate.obey("run", 2, KeptVerdict("run", "t1c0", 1, 2, 5, "a.b.c"))
    # A crash here: the files are copied as they are, nothing is flushed or closed.
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for file in (path, path.with_name("gate.db-wal")):
        (crashed / file.name).write_bytes(file.read_bytes())
    with sqlite3.connect(crashed / "gate.db") as copy:
        assert copy.execute("SELECT run, step, attempt, fence, jws FROM verdict").fetchall() == [
            ("run", "t1c0", 1, 2, "a.b.c")
        ]
        assert copy.execute("SELECT fence FROM fence").fetchall() == [(2,)]
    copy.close()
    await gate.close()


async def test_writing_behind_never_lowers_a_fence_R11(tmp_path: Path) -> None:
    path = tmp_path / "gate.db"
    gate = await Gate.open(path)
    await gate.obey("run", 2)
    await gate.obey("run", 9, KeptVerdict("run", "t1c0", 1, 9, 5, "j"))
    await gate.flush()
    await gate.close()
    again = await Gate.open(path)
    with pytest.raises(Refused, match="fence 9"):
        await again.check_fence("run", 8)
    await again.close()


async def test_fences_asked_for_at_once_agree_C3(tmp_path: Path) -> None:
    gate = await Gate.open(tmp_path / "gate.db")
    results = await asyncio.gather(*(gate.obey("run", fence) for fence in (1, 5, 3, 2, 4)), return_exceptions=True)
    assert any(result is None for result in results)
    with pytest.raises(Refused, match="fence 5"):
        await gate.check_fence("run", 4)
    await gate.close()


async def test_a_second_broker_on_the_same_store_is_told_so(tmp_path: Path) -> None:
    gate = await Gate.open(tmp_path / "gate.db")
    with pytest.raises(GateUnusable, match="in use by another broker"):
        await Gate.open(tmp_path / "gate.db")
    await gate.close()


async def test_a_path_that_cannot_be_opened_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(GateUnusable, match="AGENTRUN_GATE_PATH"):
        await Gate.open(tmp_path / "missing" / "gate.db")


async def test_a_store_of_another_schema_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "gate.db"
    await (await Gate.open(path)).close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE meta SET value = '99'")
    other.close()
    with pytest.raises(GateUnusable, match="schema 99"):
        await Gate.open(path)
