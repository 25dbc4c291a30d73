"""The seven questions in every visible state, from histories alone (R1, R5, R22)."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace as with_changes
from tests.histories import History, created
from tests.unit.console.moments import (
    MEMBERS,
    explained,
    flying,
    head_of,
    new,
    out_of_budget,
    pause,
    steps,
    stop,
    taken_over,
    verifying,
    working,
)

from agentrun.console.histories import verified
from agentrun.core.events import (
    Quiesced,
)
from agentrun.core.plan import RunPlan
from agentrun.core.visible import RunState, visible_reason, visible_state
from agentrun.journal.port import RunHead
from agentrun.render.explain import explain_text


@dataclass(frozen=True)
class Expected:
    """What must stand in the answer."""

    state: RunState
    reason: str
    unfinished: tuple[str, ...]
    new_work: str
    verbs: str  # those that take hold now
    needs: str
    recovery: tuple[tuple[str, bool, bool, bool], ...] = ()  # step, mayRepeat, sameKey, mustCheck
    unknown: tuple[str, ...] = ()
    acting: tuple[str, ...] = ()  # steps whose authority is shown


JUDGED, ALONE = "judged by the broker", "nothing: the harness goes on"
ALL, OVER = "pause steer cancel kill", "refused: the run is finished"
MODEL = ("t1", True, False, False)
PAYING = ("t1c0", False, False, True)
CASES: list[tuple[History, Expected]] = [
    (new(), Expected(RunState.CREATED, "", (), "held: not admitted", ALL, "admission")),
    (new().admit(), Expected(RunState.READY, "", ("t1",), JUDGED, ALL, ALONE, (MODEL,))),
    (
        new().admit().dispatch("t1").reply("t1", "write"),
        Expected(RunState.RUNNING, "", ("t1c0",), JUDGED, ALL, ALONE,
                 (("t1c0", False, False, False),), acting=("t1",)),
    ),
    (
        verifying(),
        Expected(RunState.RUNNING, "", ("verify1",), JUDGED, ALL, ALONE,
                 (("verify1", True, False, False),), acting=("verify1",)),
    ),
    (
        new().admit().dispatch("t1"),
        Expected(RunState.WAITING_MODEL, "", ("t1",), JUDGED, ALL, ALONE, (MODEL,), acting=("t1",)),
    ),
    (
        flying("pay"),
        Expected(RunState.WAITING_TOOL, "", ("t1c0",), JUDGED, ALL, ALONE, (PAYING,), acting=("t1c0",)),
    ),
    (
        pause(flying("read")),
        Expected(RunState.PAUSED, "Draining", ("t1c0",), "held: paused", "resume steer cancel kill",
                 "a person: resume", (("t1c0", True, False, False),), acting=("t1c0",)),
    ),
    (
        out_of_budget(),
        Expected(RunState.PAUSED, "BudgetExhausted", ("t2",), "held: the budget of modelCalls", ALL,
                 "a person: modelCalls", (("t2", True, False, False),), acting=("t1c0",)),
    ),
    (
        pause(stop(flying("pay"))),
        Expected(RunState.CANCELLING, "Cancel", ("t1c0",), "refused: Cancel by ann", "kill",
                 "nothing: the run ends once", (PAYING,), acting=("t1c0",)),
    ),
    (
        stop(new().admit().dispatch("t1"), "Kill"),
        Expected(RunState.CANCELLING, "Kill", ("t1",), "refused: Kill by ann", "",
                 "nothing: the run ends once", (MODEL,), acting=("t1",)),
    ),
    (
        new(RunPlan()).admit().dispatch("t1").reply("t1", text="hello"),
        Expected(RunState.COMPLETED, "Completed", (), OVER, "", "nothing: the run is finished", acting=("t1",)),
    ),
    (
        stop(working("write")).add(Quiesced()),
        Expected(RunState.FAILED, "Cancelled", ("t1c0",), OVER, "", "nothing: the run is finished", acting=("t1",)),
    ),
    (
        taken_over(flying("pay")),
        Expected(RunState.NEEDS_RECONCILIATION, "OutcomeUnknown", (), "held: an effect's outcome", ALL,
                 "a person: find out what became of t1c0", (PAYING,), ("t1c0",), acting=("t1c0",)),
    ),
    (
        flying("pay").answer("t1c0", "Unknown"),
        Expected(RunState.NEEDS_RECONCILIATION, "OutcomeUnknown", (), "held: an effect's outcome", ALL,
                 "a person: find out what became of t1c0", (PAYING,), ("t1c0",), acting=("t1c0",)),
    ),
]  # fmt: skip
NAMES = [f"{expected.state.value}-{expected.reason or index}" for index, (_, expected) in enumerate(CASES)]


def test_the_cases_are_every_state_that_this_version_reaches_R5() -> None:
    """Approval is a state of a later version: nothing leads to it yet."""
    assert {expected.state for _, expected in CASES} == set(RunState) - {RunState.WAITING_APPROVAL}


@pytest.mark.parametrize(("history", "expected"), CASES, ids=NAMES)
def test_the_seven_questions_have_the_right_answers_in_each_state_R1(history: History, expected: Expected) -> None:
    answer = explained(history)
    assert set(answer) == MEMBERS
    verbs = answer["control"]["verbs"]
    assert set(verbs) == {"pause", "resume", "steer", "cancel", "kill", "fork"}
    assert all(verb["takesHold"] for verb in verbs.values())
    found = Expected(
        RunState(answer["state"]["state"]),
        answer["state"]["reason"],
        tuple(steps(answer["state"]["unfinished"])),
        answer["authority"]["newWork"][: len(expected.new_work)],
        " ".join(name for name, verb in verbs.items() if verb["possible"]),
        answer["recovery"]["needs"][: len(expected.needs)],
        tuple((s["step"], s["mayRepeat"], s["sameKey"], s["mustCheck"]) for s in answer["recovery"]["steps"]),
        tuple(steps(answer["effects"]["unknown"])),
        tuple(steps(answer["authority"]["actions"])),
    )
    assert found == expected


@pytest.mark.parametrize(("history", "expected"), CASES, ids=NAMES)
def test_the_summary_and_the_state_tell_the_same_R1(history: History, expected: Expected) -> None:
    answer = explained(history)
    assert answer["run"]["state"] == answer["state"]["state"] == expected.state.value
    assert answer["run"]["seq"] == answer["state"]["headSeq"] == len(history.records)
    assert answer["state"]["headHash"] == history.records[-1].hash
    text = explain_text(answer)
    assert "(no answer)" not in text


@pytest.mark.parametrize("history", [history for history, _ in CASES], ids=NAMES)
def test_at_any_moment_of_a_history_limits_add_up_and_nothing_unknown_is_left_out_R22(history: History) -> None:
    """Each prefix of a history is a moment of the run."""
    moment = History(created(history.now.plan))
    assert moment.records == history.records[:1]
    for record in history.records[1:]:
        moment.records.append(record)
        moment.state = verified(head_of_prefix(moment), tuple(moment.records)).state
        answer = explained(moment)
        assert answer["state"]["state"] == visible_state(moment.now).value
        assert answer["state"]["reason"] == visible_reason(moment.now)
        for name, limit in answer["limits"]["budget"].items():
            if limit["granted"] is None:
                assert limit["left"] is None, name
            else:
                assert limit["left"] == limit["granted"] - limit["used"] - limit["reserved"] >= 0, name
        assert set(moment.now.unresolved) <= set(steps(answer["effects"]["unknown"]))


def head_of_prefix(moment: History) -> RunHead:
    """The head of a moment whose state is not folded yet: only its place matters."""
    last = moment.records[-1]
    return with_changes(head_of(moment), seq=last.seq, hash=last.hash)
