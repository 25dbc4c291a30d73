"""What is shown of a run, whatever happened to it and whatever it holds: total, valid, small (R5, R0.3, C36)."""

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant
from msgspec.structs import replace
from tests.histories import BLOB, READ, History, created
from tests.property.test_reducer_invariants import AnyOrder

from agentrun.api.agentrun_status import AgentRunStatus
from agentrun.api.conditions import REASONS, AcceptedReason, ConditionType
from agentrun.controller.conditions import Seen, run_marks, waiting_marks
from agentrun.controller.desired import desired_pods, may_delete
from agentrun.controller.intake import Waiting
from agentrun.controller.status import JournalHead, fitted, pending_status, run_status
from agentrun.core.events import Artifact
from agentrun.core.plan import RunPlan
from agentrun.core.state import Outcome, State, Stop
from agentrun.core.visible import visible_state

Object = dict[str, Any]
HEAD = JournalHead(1, 1, 7, BLOB)
LIMIT = 64 << 10
# Characters that cost most where they are kept: escaped, or four bytes long.
TEXT = st.text(st.sampled_from('a<&\x00"\\é\U0001f600\n'), max_size=40).map(lambda text: text * 200)


def shown(state: State, seen: Seen) -> Object:
    return fitted(run_status(state, HEAD, run_marks(state, seen), seen, 3, {}, 1_700_000_000_000_000))


def stored_bytes(status: Object) -> int:
    """As the API server writes it."""
    text = json.dumps(status, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return len(text.encode())


def check(status: Object) -> None:
    AgentRunStatus.model_validate(status)
    assert stored_bytes(status) < LIMIT
    conditions: list[Object] = status["conditions"]
    assert [condition["type"] for condition in conditions] == list(ConditionType)
    for condition in conditions:
        assert condition["observedGeneration"] == status["observedGeneration"]
        assert condition["reason"] in {reason.value for reason in REASONS[ConditionType(condition["type"])]}


class ShownInAnyOrder(AnyOrder):
    """Whatever order events come in, there is something true to show and a clear wish for Pods."""

    @invariant()
    def every_status_is_valid(self) -> None:
        for seen in (Seen(), Seen(pods_gone=False)):
            status = shown(self.history.now, seen)
            check(status)
            assert status["state"] == visible_state(self.history.now).value

    @invariant()
    def the_end_is_told_once_and_for_all(self) -> None:
        found = {mark.type: mark.status for mark in run_marks(self.history.now, Seen())}
        assert found[ConditionType.FINISHED] == self.history.now.terminal
        ended = [found[ConditionType.COMPLETE], found[ConditionType.FAILED]]
        assert ended.count(True) == int(self.history.now.terminal)

    @invariant()
    def a_run_that_ends_wants_no_pod(self) -> None:
        state = self.history.now
        wanted = desired_pods(state)
        assert not wanted or (state.admitted_at and state.stop is None and not state.terminal)
        assert wanted.keys() <= {"work", "verify"}
        assert may_delete(state) or (state.stop is not None and state.flying)


TestShownInAnyOrder = ShownInAnyOrder.TestCase
TestShownInAnyOrder.settings = settings(max_examples=40, stateful_step_count=30, deadline=None, derandomize=True)


def crowded(calls: int) -> History:
    history = History(created(RunPlan(tools=(READ,)))).admit().started()
    return history.dispatch("t1").reply("t1", *["read"] * calls)


CROWDED = crowded(120)
for number in range(40):
    CROWDED.dispatch(f"t1c{number}")


@example(
    summary="<" * 9000,
    message="<" * 9000,
    names=[f"{number}" + "<" * 300 for number in range(50)],
    completed=True,
    unresolved=True,
)
@given(summary=TEXT, message=TEXT, names=st.lists(TEXT, max_size=50), completed=st.booleans(), unresolved=st.booleans())
def test_a_status_is_under_64_kib_whatever_the_run_holds_C36(
    summary: str, message: str, names: list[str], completed: bool, unresolved: bool
) -> None:
    reason = "Completed" if completed else "ModelFailed"
    state = replace(
        CROWDED.now,
        name="r" * 253,
        final=summary,
        stop=Stop("Cancel", message, message, 1),
        outcome=Outcome(completed, reason, message, 1),
        artifacts=tuple(Artifact(name, BLOB, name, 1) for name in names),
        unresolved=tuple(f"t1c{number}" for number in range(100)) if unresolved else (),
    )
    check(shown(state, Seen()))
    check(shown(replace(state, outcome=None), Seen()))


@given(message=TEXT, final=st.booleans())
def test_so_is_one_of_a_run_that_waits_C36(message: str, final: bool) -> None:
    marks = waiting_marks(Waiting(AcceptedReason.INPUT_NOT_FOUND, message, final))
    check(fitted(pending_status(1, marks, {}, 0)))


def test_what_fits_is_not_cut() -> None:
    status = run_status(CROWDED.now, HEAD, run_marks(CROWDED.now, Seen()), Seen(), 3, {}, 0)
    assert fitted(status) == status
