"""The status: small whatever the run holds, an output alone, valid by the kind's own schema (C36)."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.histories import BLOB, READ, History, created
from tests.unit.controller.situations import WAITING, histories

from agentrun.api.agentrun_status import AgentRunStatus
from agentrun.controller.conditions import Seen, run_marks, stopped_marks, waiting_marks
from agentrun.controller.status import JournalHead, pending_status, run_status, stopped_status
from agentrun.controller.status_writer import urgent
from agentrun.core.events import Artifact, WorkspaceGot
from agentrun.core.plan import RunPlan
from agentrun.core.state import State
from agentrun.core.visible import visible_reason, visible_state

HEAD = JournalHead(1, 1, 7, BLOB)
LIMIT = 64 << 10


def shown(state: State) -> dict[str, object]:
    return run_status(state, HEAD, run_marks(state, Seen()), Seen(), 3, {}, 1_700_000_000_000_000)


def test_every_state_is_shown_as_derived_and_is_valid_by_the_schema() -> None:
    seen = set()
    for history in histories():
        status = shown(history.now)
        AgentRunStatus.model_validate(status)
        assert status["state"] == visible_state(history.now).value
        assert status.get("reason", "") == visible_reason(history.now)
        assert status["observedGeneration"] == 3
        seen.add(status["state"])
    assert seen >= {"created", "waiting_model", "paused", "cancelling", "completed", "failed", "needs_reconciliation"}


def test_a_run_without_a_history_is_shown_too() -> None:
    for waiting in WAITING:
        pending = pending_status(1, waiting_marks(waiting), {}, 0)
        stopped = stopped_status(1, stopped_marks(waiting, "Kill", "enough"), "Kill", {}, 0)
        for status in (pending, stopped):
            AgentRunStatus.model_validate(status)
        assert (pending["state"], stopped["state"], stopped["reason"]) == ("created", "failed", "Killed")


@settings(max_examples=40)
@given(
    summary=st.text(max_size=20_000),
    calls=st.integers(0, 200),
    names=st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=300), max_size=100),
)
def test_it_stays_under_64_kib_whatever_the_run_holds_C36(summary: str, calls: int, names: list[str]) -> None:
    history = History(created(RunPlan(tools=(READ,)))).admit().started()
    history.dispatch("t1").reply("t1", *["read"] * calls, text=summary)
    for number in range(calls):
        history.dispatch(f"t1c{number}")
    if not calls:
        artifacts = tuple(Artifact(name, BLOB, "text/plain", 1) for name in names)
        history.dispatch("get1").add(WorkspaceGot("get1", 1, BLOB, artifacts))
    assert len(json.dumps(shown(history.now)).encode()) < LIMIT


def test_it_says_nothing_of_what_is_the_users() -> None:
    for history in histories():
        assert not shown(history.now).keys() & {"spec", "metadata", "labels", "annotations"}


def test_what_somebody_waits_for_is_written_at_once_and_progress_is_not() -> None:
    ready = shown(History(created(RunPlan())).admit().now)
    model = shown(History(created(RunPlan())).admit().dispatch("t1").now)
    done = shown(History(created(RunPlan())).admit().dispatch("t1").reply("t1").now)
    assert not urgent(ready, model)
    assert urgent(model, done)
    assert urgent({}, ready)
