"""A Pod's status read as what a run must know: progress is no failure, a dead node is a loss (C38, C60)."""

import datetime as dt
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.controller.pods import NOW, pod

from agentrun.api.conditions import SandboxReadyReason as Reason
from agentrun.controller.pod_view import Life, look
from agentrun.kube.reading import member, members
from agentrun_sandbox import guard

Object = dict[str, Any]


@pytest.mark.parametrize(
    ("phase", "life", "reason"),
    [
        ("unscheduled", Life.COMING, Reason.PENDING),
        ("unschedulable", Life.COMING, Reason.UNSCHEDULABLE),
        ("pulling", Life.COMING, Reason.PULLING),
        ("unpullable", Life.COMING, Reason.IMAGE_PULL_FAILED),
        ("starting", Life.COMING, Reason.STARTING),
        ("refused", Life.REFUSED, Reason.EGRESS_NOT_ENFORCED),
        ("running", Life.RUNNING, Reason.READY),
        ("evicted", Life.LOST, Reason.SANDBOX_LOST),
        ("dead node", Life.LOST, Reason.SANDBOX_LOST),
        ("going", Life.GOING, Reason.STOPPED),
    ],
)
def test_each_point_of_a_pods_life_has_its_word(phase: str, life: Life, reason: Reason) -> None:
    view = look(pod(phase), NOW)
    assert (view.life, view.reason) == (life, reason)


def test_a_pull_says_how_long_it_has_taken_C60() -> None:
    assert "30 s" in look(pod("pulling"), NOW).message


@pytest.mark.parametrize("seconds", [0, 1, 599])
@pytest.mark.parametrize("phase", ["pulling", "starting", "unscheduled"])
def test_what_takes_long_is_told_in_seconds_and_is_no_failure_C60(phase: str, seconds: int) -> None:
    found = pod(phase)
    found["metadata"]["creationTimestamp"] = (NOW - dt.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    view = look(found, NOW)
    assert view.life is Life.COMING
    assert view.reason in (Reason.PULLING, Reason.STARTING, Reason.PENDING)
    assert view.message.endswith(f", {seconds} s")


def test_a_clock_that_is_behind_makes_no_negative_wait() -> None:
    assert "pulling images, 0 s" in look(pod("pulling"), NOW - dt.timedelta(hours=1)).message


@pytest.mark.parametrize("error", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"])
@pytest.mark.parametrize("where", ["initContainerStatuses", "containerStatuses"])
def test_a_pull_that_fails_names_container_and_error_and_may_still_succeed_C60(where: str, error: str) -> None:
    found = pod("pulling")
    state = found["status"][where][0]
    state["state"] = {"waiting": {"reason": error, "message": "manifest unknown " * 200}}
    view = look(found, NOW)
    assert (view.life, view.reason) == (Life.COMING, Reason.IMAGE_PULL_FAILED)
    assert view.message.startswith(f"{state['name']}: {error}: manifest unknown")
    assert len(view.message) <= 1000


@pytest.mark.parametrize("error", ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"])
def test_a_container_that_cannot_be_made_is_told_in_the_clusters_words(error: str) -> None:
    found = pod("pulling")
    found["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": error, "message": "no such folder"}}
    view = look(found, NOW)
    assert view.life is not Life.RUNNING
    assert view.message == f"sandbox: {error}: no such folder"


@pytest.mark.parametrize("reason", ["DeletionByTaintManager", "EvictionByEvictionAPI", "PreemptionByScheduler"])
def test_a_running_sandbox_that_is_being_taken_away_is_lost_C38(reason: str) -> None:
    found = pod("running")
    found["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": reason}]
    view = look(found, NOW)
    assert (view.life, view.reason, view.message) == (Life.LOST, Reason.SANDBOX_LOST, reason)


def test_a_disruption_that_was_called_off_is_no_loss_C38() -> None:
    found = pod("running")
    found["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "False", "reason": "EvictionByEvictionAPI"}]
    assert look(found, NOW).life is Life.RUNNING


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ended_is_lost_whatever_its_containers_last_said(phase: str) -> None:
    found = pod("running")
    found["status"]["phase"] = phase
    assert look(found, NOW).life is Life.LOST


def test_a_failure_says_what_the_cluster_said() -> None:
    assert "0/2 nodes" in look(pod("unschedulable"), NOW).message
    assert "refused" in look(pod("unpullable"), NOW).message
    assert "Evicted: low on memory" in look(pod("evicted"), NOW).message
    assert "10.0.0.2:443" in look(pod("refused"), NOW).message


def test_a_running_sandbox_without_its_guards_proof_is_not_ready_R20() -> None:
    found = pod("running")
    del found["status"]["initContainerStatuses"]
    assert look(found, NOW).life is Life.COMING


@pytest.mark.parametrize("message", ["", "not json", "[]", '{"ok": "yes"}', "{}"])
def test_a_guard_whose_report_cannot_be_read_has_proven_nothing_R20(message: str) -> None:
    found = pod("running")
    found["status"]["initContainerStatuses"][0]["state"]["terminated"]["message"] = message
    assert look(found, NOW).life is Life.REFUSED


def test_a_guard_that_says_ok_and_ends_with_a_failure_has_proven_nothing_R20() -> None:
    found = pod("running")
    found["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] = 1
    assert look(found, NOW).life is Life.REFUSED


def reported(exit_code: int, **members: Any) -> Object:
    """A Pod whose guard ended with this report."""
    found = pod("running")
    ended = {"exitCode": exit_code, "message": json.dumps({"v": 1, **members})}
    found["status"]["initContainerStatuses"][0]["state"] = {"terminated": ended}
    return found


def test_a_failed_guard_names_what_was_open_and_what_was_shut_R20() -> None:
    view = look(reported(1, ok=False, open=["10.0.0.2:443"], allowedFailed=["10.0.0.3:3128"]), NOW)
    assert (view.life, view.reason) == (Life.REFUSED, Reason.EGRESS_NOT_ENFORCED)
    assert "reachable although nothing allows it: 10.0.0.2:443" in view.message
    assert "allowed but not reachable: 10.0.0.3:3128" in view.message
    assert "tolerateOpen" in view.message


def test_of_many_open_targets_the_first_eight_are_named() -> None:
    message = look(reported(1, ok=False, open=[f"10.0.0.{last}:443" for last in range(1, 10)]), NOW).message
    assert "10.0.0.8:443" in message
    assert "10.0.0.9:443" not in message


def test_a_guard_that_is_tried_again_is_judged_by_how_it_ended_before_R20() -> None:
    found = reported(1, ok=False, open=["10.0.0.2:443"])
    state = found["status"]["initContainerStatuses"][0]
    state |= {"lastState": state["state"], "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}
    view = look(found, NOW)
    assert view.life is Life.REFUSED
    assert "10.0.0.2:443" in view.message


def test_what_the_class_tolerates_is_shown_of_a_sandbox_that_serves() -> None:
    view = look(reported(0, ok=True, tolerated=["192.168.0.5:10250"]), NOW)
    assert (view.life, view.open_targets) == (Life.RUNNING, ("192.168.0.5:10250",))
    assert (view.ip, view.container_id, view.node, view.image_ids) == (
        "10.0.0.9",
        "containerd://abc",
        "node-1",
        ("i2",),
    )


def test_the_report_of_the_real_guard_is_read_R20(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("AGENTRUN_TERMINATION_LOG", str(tmp_path / "log"))
        found = [guard.Target(target, closed=True)]
        guard.probe(found, patience=1)
        guard.report(guard.result_of(found, 0))
    assert target in capsys.readouterr().out
    written = json.loads((tmp_path / "log").read_text())
    view = look(reported(1, **written), NOW)
    assert view.life is Life.REFUSED
    assert target in view.message


_TEXT = st.text(max_size=20)
_Shapes = st.SearchStrategy[Any]
_WORDS = st.sampled_from(["ErrImagePull", "CrashLoopBackOff", "PodInitializing", "CreateContainerConfigError", "", "x"])
_REPORTS = st.sampled_from(["", "{", "null", "[]", '{"ok":true}', '{"ok":false}', '{"ok":true,"open":[1]}']) | _TEXT
_STATES: _Shapes = st.fixed_dictionaries(
    {},
    optional={
        "running": st.just({"startedAt": "2026-01-01T12:00:10Z"}),
        "waiting": st.none() | st.fixed_dictionaries({}, optional={"reason": _WORDS, "message": _TEXT}),
        "terminated": st.fixed_dictionaries({"exitCode": st.integers(0, 255)}, optional={"message": _REPORTS}),
    },
)


def _of_containers(*names: str) -> _Shapes:
    one: _Shapes = st.fixed_dictionaries(
        {"name": st.sampled_from(names)},
        optional={"state": st.none() | _STATES, "lastState": _STATES, "imageID": _TEXT, "containerID": _TEXT},
    )
    return st.none() | st.lists(one, max_size=3)


_CONDITIONS: _Shapes = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["Ready", "PodScheduled", "DisruptionTarget"]),
        "status": st.sampled_from(["True", "False", "Unknown"]),
    },
    optional={"reason": _TEXT, "message": _TEXT},
)
_STATUS: _Shapes = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running", "Failed", "Succeeded", "Unknown"]),
        "reason": _TEXT,
        "message": _TEXT,
        "podIP": st.sampled_from(["", "10.0.0.9"]),
        "conditions": st.none() | st.lists(_CONDITIONS, max_size=3),
        "initContainerStatuses": _of_containers("guard", "mesh"),
        "containerStatuses": _of_containers("sandbox", "mesh"),
    },
)


def proven(status: Object | None) -> bool:
    """Whether some end of the guard says, with exit code 0 and in JSON, that egress is closed."""
    ends = [
        member(member(one, when), "terminated")
        for one in members(status or {}, "initContainerStatuses")
        for when in ("state", "lastState")
        if one["name"] == "guard"
    ]
    return any(end.get("exitCode") == 0 and end.get("message") == '{"ok":true}' for end in ends)


@settings(max_examples=500)
@given(status=_STATUS, node=st.sampled_from(["", "node-1"]), born=st.booleans(), dying=st.booleans())
def test_it_is_total_and_never_takes_a_pod_for_running_without_proof_R20(
    status: Object | None, node: str, born: bool, dying: bool
) -> None:
    found: Object = pod("unscheduled") | {"status": status}
    found["spec"]["nodeName"] = node
    if not born:
        del found["metadata"]["creationTimestamp"]
    if dying:
        found["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:29Z"
    view = look(found, NOW)
    assert (view.life is Life.GOING) is dying
    assert view.life is not Life.RUNNING or proven(status)
    assert (view.reason is Reason.READY) is (view.life is Life.RUNNING)
    assert view.life in (Life.RUNNING, Life.GOING, Life.COMING) or view.message


def test_a_pod_without_any_status_is_waited_for() -> None:
    found = pod("unscheduled")
    del found["status"]
    assert look(found, NOW).reason is Reason.PENDING


def test_a_sandbox_that_ended_and_starts_again_is_no_pull_C57() -> None:
    found = pod("pulling")
    state = found["status"]["containerStatuses"][0]
    state["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    state["lastState"] = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    view = look(found, NOW)
    assert (view.life, view.reason) == (Life.COMING, Reason.STARTING)
    assert "OOMKilled" in view.message


def test_a_guard_that_could_not_do_its_work_says_why() -> None:
    found = pod("refused")
    ended = found["status"]["initContainerStatuses"][0]["state"]["terminated"]
    ended["message"] = '{"ok": false, "open": [], "message": "name.test:1 is no target"}'
    assert "name.test:1 is no target" in look(found, NOW).message
