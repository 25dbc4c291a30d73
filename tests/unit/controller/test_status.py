"""The status: an output alone, valid by the kind's own schema, urgent where somebody waits (R0.3)."""

import json
from typing import Any

from tests.histories import BLOB, READ, History, created
from tests.unit.controller.pods import NOW, pod
from tests.unit.controller.situations import WAITING, histories

from agentrun.api.agentrun_status import AgentRunStatus
from agentrun.controller.conditions import Seen, run_marks, stopped_marks, waiting_marks
from agentrun.controller.pod_view import look
from agentrun.controller.status import JournalHead, pending_status, run_status, stopped_status
from agentrun.controller.status_writer import urgent
from agentrun.core.events import Artifact, WorkspaceGot
from agentrun.core.plan import RunPlan
from agentrun.core.state import State
from agentrun.core.visible import visible_reason, visible_state

Object = dict[str, Any]
HEAD = JournalHead(1, 1, 7, BLOB)


def shown(state: State) -> Object:
    return run_status(state, HEAD, run_marks(state, Seen()), Seen(), 3, {}, 1_700_000_000_000_000)


def test_every_state_is_shown_as_derived_and_is_valid_by_the_schema() -> None:
    seen: set[object] = set()
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


def test_an_artifact_named_twice_is_listed_once_for_the_list_is_keyed_by_name() -> None:
    history = History(created(RunPlan(tools=(READ,)))).admit().started().dispatch("t1").reply("t1")
    artifacts = tuple(Artifact(name, BLOB, "text/plain", 1) for name in ("report", "diff", "report"))
    status = shown(history.dispatch("get1").add(WorkspaceGot("get1", 1, BLOB, artifacts)).now)
    assert [one["name"] for one in status["result"]["artifacts"]] == ["report", "diff"]


def test_what_a_sandbox_can_reach_is_shown_by_the_names_of_the_class() -> None:
    found = pod("running")
    message = json.dumps({"ok": True, "tolerated": ["192.0.2.4:10250", "[fd00::1]:443"]})
    found["status"]["initContainerStatuses"][0]["state"]["terminated"]["message"] = message
    seen = Seen(look(found, NOW), pods_gone=False)
    state = History().admit().started().now
    status = run_status(state, HEAD, run_marks(state, seen), seen, 3, {}, 0)
    AgentRunStatus.model_validate(status)
    assert status["sandbox"]["openTargets"] == ["APIServer", "NodeIP"]


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
