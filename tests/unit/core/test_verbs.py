"""Five verbs in every state that version 1 reaches: what is shown next, and what is still begun (R5, R9)."""

from collections.abc import Callable

import pytest
from tests.histories import BLOB, PAY, READ, WRITE, History, created

from agentrun.core.events import (
    Actor,
    LeaseTaken,
    ModeChanged,
    Quiesced,
    SteeringAdded,
    StopRequested,
)
from agentrun.core.plan import RunPlan
from agentrun.core.reducer import commands
from agentrun.core.visible import visible_state

ANN = Actor("ann")
Make = Callable[[], History]


def _waiting_tool() -> History:
    plan = RunPlan(tools=(READ, WRITE))
    return History(created(plan)).admit().started().dispatch("t1").reply("t1", "write").dispatch("t1c0")


def _unknown() -> History:
    history = History(created(RunPlan(tools=(PAY,)))).admit().dispatch("t1").reply("t1", "pay").dispatch("t1c0")
    history.fence = 2
    return history.add(LeaseTaken("another"))


def _completed() -> History:
    return History(created(RunPlan())).admit().dispatch("t1").reply("t1")


STATES: dict[str, Make] = {
    "created": lambda: History(created(RunPlan())),
    "ready": lambda: History(created(RunPlan())).admit(),
    "running": lambda: History(created(RunPlan(tools=(WRITE,)))).admit().dispatch("t1").reply("t1", "write"),
    "waiting_model": lambda: History(created(RunPlan())).admit().dispatch("t1"),
    "waiting_tool": _waiting_tool,
    "paused": lambda: History(created(RunPlan())).admit().add(ModeChanged(True, 2, ANN)),
    "cancelling": lambda: _waiting_tool().add(StopRequested("Cancel", ANN)),
    "needs_reconciliation": _unknown,
    "completed": _completed,
    "failed": lambda: History(created(RunPlan())).admit().add(StopRequested("Kill", ANN), Quiesced()),
}
VERBS: dict[str, Callable[[History], History]] = {
    "pause": lambda history: history.add(ModeChanged(True, 9, ANN)),
    "resume": lambda history: history.add(ModeChanged(False, 9, ANN)),
    "steer": lambda history: history.add(SteeringAdded("s1", BLOB, "NextModelCall", ANN)),
    "cancel": lambda history: history.add(StopRequested("Cancel", ANN)),
    "kill": lambda history: history.add(StopRequested("Kill", ANN)),
}
# What is shown after the verb, in the order of VERBS. A pause waits for what is in flight; a stop outranks all but
# an end; an unknown effect outranks a pause; an end is an end.
AFTER: dict[str, tuple[str, str, str, str, str]] = {
    "created": ("paused", "created", "created", "cancelling", "cancelling"),
    "ready": ("paused", "ready", "ready", "cancelling", "cancelling"),
    "running": ("paused", "running", "running", "cancelling", "cancelling"),
    "waiting_model": ("paused", "waiting_model", "waiting_model", "cancelling", "cancelling"),
    "waiting_tool": ("paused", "waiting_tool", "waiting_tool", "cancelling", "cancelling"),
    "paused": ("paused", "ready", "paused", "cancelling", "cancelling"),
    "cancelling": ("cancelling", "cancelling", "cancelling", "cancelling", "cancelling"),
    "needs_reconciliation": (
        "needs_reconciliation",
        "needs_reconciliation",
        "needs_reconciliation",
        "cancelling",
        "cancelling",
    ),
    "completed": ("completed", "completed", "completed", "completed", "completed"),
    "failed": ("failed", "failed", "failed", "failed", "failed"),
}
CELLS = [(state, verb, after) for state, shown in AFTER.items() for verb, after in zip(VERBS, shown, strict=True)]


@pytest.mark.parametrize("state", list(STATES))
def test_every_state_of_the_table_is_the_one_it_says_R5(state: str) -> None:
    assert visible_state(STATES[state]().now).value == state


@pytest.mark.parametrize(("state", "verb", "after"), CELLS)
def test_a_verb_in_a_state_shows_what_the_table_says_R9(state: str, verb: str, after: str) -> None:
    assert visible_state(VERBS[verb](STATES[state]()).now).value == after


@pytest.mark.parametrize(("state", "verb"), [(state, verb) for state in STATES for verb in ("pause", "cancel", "kill")])
def test_nothing_new_is_begun_once_pause_cancel_or_kill_is_recorded_R9(state: str, verb: str) -> None:
    history = STATES[state]()
    flying = {step.id for step in history.now.flying}
    VERBS[verb](history)
    assert {command.step for command in commands(history.now)} <= flying


@pytest.mark.parametrize("state", [name for name in STATES if name not in ("completed", "failed")])
def test_resume_takes_a_pause_back_and_nothing_else_R9(state: str) -> None:
    untouched, history = STATES[state](), STATES[state]()
    history.add(ModeChanged(True, 8, ANN), ModeChanged(False, 9, ANN))
    if state == "paused":
        assert not history.now.paused
    else:
        assert visible_state(history.now) == visible_state(untouched.now)
        assert {one.id for one in commands(history.now)} == {one.id for one in commands(untouched.now)}


@pytest.mark.parametrize("state", list(STATES))
def test_kill_after_cancel_escalates_and_cancel_after_kill_changes_nothing_R9(state: str) -> None:
    history = VERBS["kill"](VERBS["cancel"](STATES[state]()))
    killed = history.now.stop
    VERBS["cancel"](history)
    assert history.now.stop == killed
    if killed is not None and state != "completed":
        assert killed.mode == "Kill"


@pytest.mark.parametrize("state", [name for name in STATES if name not in ("completed", "failed")])
def test_both_milestones_of_a_stop_are_kept_and_ordered_R9(state: str) -> None:
    history = VERBS["cancel"](STATES[state]())
    first = history.now.milestones
    assert 0 < first.requested <= first.acknowledged
    for step in history.now.flying:
        history.answer(step.id) if step.kind == "tool" else history.reply(step.id)
    history.add(Quiesced())
    assert history.now.milestones.requested == first.requested
    assert first.acknowledged <= history.now.milestones.quiescent
    assert history.now.terminal == (state != "needs_reconciliation"), "an unknown effect outlives the stop"
