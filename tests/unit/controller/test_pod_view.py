"""A Pod's status read as what a run must know: progress is no failure, a dead node is a loss (C38, C60)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.controller.pods import NOW, pod

from agentrun.api.conditions import SandboxReadyReason as Reason
from agentrun.controller.pod_view import Life, look


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


_STATES = st.sampled_from(
    [{}, {"running": {}}, {"waiting": {}}, {"waiting": {"reason": "x"}}, {"terminated": {"exitCode": 0}}]
)
_STATUS = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running", "Failed", "Succeeded", "Unknown"]),
        "podIP": st.just("10.0.0.9"),
        "conditions": st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(["Ready", "PodScheduled"]), "status": st.sampled_from(["True", "False"])}
            )
        ),
        "initContainerStatuses": st.lists(st.fixed_dictionaries({"name": st.just("guard"), "state": _STATES})),
        "containerStatuses": st.lists(st.fixed_dictionaries({"name": st.just("sandbox"), "state": _STATES})),
    },
)


@given(_STATUS, st.booleans())
def test_it_is_total_and_never_takes_a_pod_for_running_without_proof(status: Any, placed: bool) -> None:
    found = pod("unscheduled") | {"status": status}
    if placed:
        found["spec"]["nodeName"] = "node-1"
    assert look(found, NOW).life is not Life.RUNNING
