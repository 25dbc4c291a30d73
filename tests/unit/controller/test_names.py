"""Names that others lean on (docs/decisions/0002-joints.md), and which Pods a run wants by name (R20, C1)."""

from hypothesis import given
from hypothesis import strategies as st
from tests.histories import PAY, History, created
from tests.unit.controller.situations import stopped, verified

from agentrun.controller.desired import desired_pods, may_delete
from agentrun.controller.names import pod_name, revision_name
from agentrun.controller.sandboxes import number, purpose
from agentrun.core.events import SandboxLost, StepAbandoned, VerificationCompleted
from agentrun.core.plan import RunPlan

UID = "0f8fad5b-d9cb-469f-a165-70867728950e"
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,80}[a-z0-9])?", fullmatch=True)


def test_names_are_as_the_other_parts_read_them() -> None:
    assert pod_name("fix", UID, "work", 1) == "arun-fix-0f8fad5b-w1"
    assert pod_name("a.b" * 20, UID, "verify", 3) == f"arun-{('a.b' * 20)[:40].replace('.', '-')}-0f8fad5b-v3"
    assert revision_name("fixer", "sha256:0123456789abcdef") == "fixer-0123456789"


@given(NAMES, st.uuids(), st.sampled_from(["work", "verify"]), st.integers(1, 99))
def test_what_a_pod_is_for_is_read_back_from_its_name_C1(name: str, uid: object, what: str, count: int) -> None:
    pod = {"metadata": {"name": pod_name(name, str(uid), what, count)}}
    assert (purpose(pod), number(pod)) == (what, count)


def test_a_pod_that_is_none_of_ours_is_for_nothing() -> None:
    for name in ("nginx", "arun-fix", "w1", "arun-fix-0f8fad5b-x1", "arun-fix-0f8fad5b-w1-abc"):
        pod = {"metadata": {"name": name}}
        assert (purpose(pod), number(pod)) == ("", 0)


def test_a_sandbox_is_wanted_from_admission_until_the_workspace_is_out() -> None:
    history = History()
    assert desired_pods(history.now) == {}
    history.admit()
    assert desired_pods(history.now) == {"work": 1}
    history.started().dispatch("t1").reply("t1", "read")
    assert desired_pods(history.now) == {"work": 1}


def test_a_run_without_sandbox_tools_wants_no_pod() -> None:
    for plan in (RunPlan(), RunPlan(tools=(PAY,))):
        assert desired_pods(History(created(plan)).admit().now) == {}


def test_the_goal_is_judged_in_a_fresh_pod_and_after_a_loss_in_another() -> None:
    history = verified()
    assert desired_pods(history.now) == {"verify": 1}
    history.add(SandboxLost("pod-2", "SandboxLost", "node died"))
    assert desired_pods(history.now) == {"verify": 2}


def test_a_run_that_ended_or_is_stopping_wants_none() -> None:
    ended = verified().add(VerificationCompleted("verify1", 1, True, "3 passed"))
    for history in (ended, stopped("Cancel"), stopped("Kill")):
        assert desired_pods(history.now) == {}


def test_a_cancelled_call_keeps_its_pod_until_its_owner_ended_it_and_a_killed_one_does_not_R9() -> None:
    cancelled, killed = stopped("Cancel"), stopped("Kill")
    assert not may_delete(cancelled.now)
    assert may_delete(killed.now)
    assert may_delete(cancelled.add(StepAbandoned("t1c0", 1, "cancelled")).now)
