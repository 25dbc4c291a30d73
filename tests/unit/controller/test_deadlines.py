"""Deadlines are kept by the operator, whoever waits for whom (R22)."""

import asyncio

from tests.unit.controller.bench import Bench


async def test_a_paused_run_is_given_up_after_its_idle_time_and_not_before(one: Bench) -> None:
    one.run_spec(1, budget={"idleSeconds": 1}, operatingMode="Paused")
    one.see()
    wait = await one.turn()
    assert wait is not None
    assert wait <= 1.0, "it is looked at again when the time is up"
    assert (await one.state()).outcome is None
    await asyncio.sleep(1.1)
    await one.turns()
    assert (one.status()["state"], one.status()["reason"]) == ("failed", "BudgetExhausted")
    assert [record.kind for record in await one.history()].count("DeadlinePassed") == 1


async def test_a_run_past_its_whole_time_is_stopped(one: Bench) -> None:
    one.run_spec(1, budget={"wallClockSeconds": 1})
    await one.turns()
    await asyncio.sleep(1.1)
    await one.turns()
    state = await one.state()
    assert state.stop is not None
    assert state.stop.mode == "Deadline"
