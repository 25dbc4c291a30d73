"""The stories of a first run, told on the real cluster with the installed chart (R0, R1, R5, R20)."""

from collections.abc import Callable

import pytest
from tests.cluster.fixtures import NodeControl
from tests.cluster.shell import wait_until
from tests.e2e.conftest import Tenant, settle
from tests.e2e.install import NAMESPACE, ROOT

EXAMPLE = ROOT / "examples/01-fix-a-failing-test"
STANDING = {"networkpolicy.networking.k8s.io/agentrun-default-deny", "serviceaccount/agentrun-sandbox",
            "serviceaccount/agentrun-viewer"}  # fmt: skip
CONDITIONS = {"Accepted", "Admitted", "SandboxReady", "ApprovalRequired", "Paused", "CancelAcknowledged", "Quiescent",
              "NeedsReconciliation", "Complete", "Failed", "Finished", "Reconciling", "Stalled"}  # fmt: skip


@pytest.mark.usefixtures("story")
def test_an_agent_fixes_a_failing_test_and_the_fix_is_verified_in_a_fresh_pod(tenant: Tenant) -> None:
    tenant.kubectl("apply", "-f", str(EXAMPLE))
    status = tenant.finished("fix-the-test", 180)
    assert (status["state"], status["reason"]) == ("completed", "Verified")
    assert "receive()" in status["result"]["summary"]
    assert "diff" in {artifact["name"] for artifact in status["result"]["artifacts"]}
    assert tenant.condition("fix-the-test", "Complete") == ("True", "Verified")
    assert {condition["type"] for condition in status["conditions"]} == CONDITIONS
    tenant.kubectl.wait("agentrun/fix-the-test", "condition=Quiescent", 60)
    assert tenant.pods() == []


@pytest.mark.usefixtures("story")
def test_a_model_that_deletes_the_failing_test_is_found_out_C63(tenant: Tenant) -> None:
    tenant.apply("cheat")
    status = tenant.finished("cheat", 180)
    assert (status["state"], status["reason"]) == ("failed", "VerificationFailed")
    assert "All tests pass" in status["result"]["summary"]


@pytest.mark.usefixtures("story")
def test_an_image_that_cannot_be_pulled_is_visible_within_seconds_C60(tenant: Tenant) -> None:
    tenant.apply("unpullable")
    reasons: list[tuple[str, str]] = []

    def told() -> bool:
        reasons.append(tenant.condition("unpullable", "SandboxReady"))
        return reasons[-1] == ("False", "ImagePullFailed")

    wait_until("the pull failure is shown", told, 15, 0.2)
    assert not [reason for _, reason in reasons if "Egress" in reason], "progress is no network fault"


@pytest.mark.usefixtures("story")
def test_applying_again_changes_nothing(tenant: Tenant) -> None:
    tenant.apply("busybox")
    tenant.finished("busybox")
    before = tenant.run("busybox")["metadata"]["resourceVersion"]
    settle(3)  # the last status may still be written
    before = tenant.run("busybox")["metadata"]["resourceVersion"]
    tenant.apply("busybox")
    settle(3)
    assert tenant.run("busybox")["metadata"]["resourceVersion"] == before
    assert tenant.pods() == []


@pytest.mark.usefixtures("story")
def test_a_run_applied_before_its_definition_waits_and_then_runs(tenant: Tenant) -> None:
    tenant.apply("late-definition")
    tenant.until("late-definition", "waits", lambda status: status.get("reason") == "DefinitionNotFound")
    assert tenant.condition("late-definition", "Finished") == ("False", "NotFinished")
    tenant.apply("late-definition-2")
    assert tenant.finished("late-definition")["state"] == "completed"


@pytest.mark.usefixtures("story")
def test_deleting_a_run_midway_leaves_only_the_standing_objects(tenant: Tenant) -> None:
    tenant.apply("hung-tool")
    tenant.state("hung-tool", "waiting_tool")
    tenant.kubectl("delete", "agentrun,agentdefinition,toolgrant", "--all", "--timeout=30s")
    kinds = "pods,networkpolicies,serviceaccounts,controllerrevisions,configmaps,secrets"

    def left() -> set[str]:
        names = set(tenant.kubectl("get", kinds, "-o", "name").split())
        return names - {"serviceaccount/default", "configmap/kube-root-ca.crt"}

    wait_until("only the standing objects are left", lambda: left() == STANDING, 60)


@pytest.mark.usefixtures("story")
def test_the_same_run_in_three_images_one_without_a_shell(tenant: Tenant) -> None:
    for name in ("reference", "busybox", "noshell"):
        tenant.apply(name)
    for name in ("reference", "busybox", "noshell"):
        assert tenant.finished(name, 120)["state"] == "completed", name


@pytest.mark.usefixtures("story")
def test_a_node_that_dies_with_the_sandbox_ends_the_run_as_lost_C38(tenant: Tenant, node_control: NodeControl) -> None:
    tenant.apply("hung-tool")
    tenant.state("hung-tool", "waiting_tool")
    node = tenant.pods()[0]["spec"]["nodeName"]
    ours = tenant.kubectl.of(NAMESPACE)
    operator = {pod["spec"]["nodeName"] for pod in ours.items("pods", "-l", "app.kubernetes.io/name=agentrun")}
    if node in operator:
        tenant.kubectl("delete", "agentrun", "hung-tool", "--timeout=60s")
        _elsewhere(tenant, operator)
        node = tenant.pods()[0]["spec"]["nodeName"]
    node_control.kill(node)
    status = tenant.finished("hung-tool", 150)
    assert (status["state"], status["reason"]) == ("failed", "SandboxLost")
    node_control.restore(node)
    for workload in ("agentrun", "agentrun-broker"):
        ours("rollout", "status", f"statefulset/{workload}", "--timeout=150s", timeout=180)


def _elsewhere(tenant: Tenant, busy: set[str]) -> None:
    """The operator lives on that node: let the sandbox be scheduled to the other one."""
    for name in busy:
        tenant.kubectl("cordon", name)
    try:
        wait_until("the first Pod is gone", lambda: not tenant.pods(), 60)
        tenant.apply("hung-tool")
        tenant.state("hung-tool", "waiting_tool")
    finally:
        for name in busy:
            tenant.kubectl("uncordon", name)


@pytest.mark.usefixtures("story")
def test_pause_holds_the_next_step_and_resume_goes_on_R9(tenant: Tenant) -> None:
    tenant.apply("slow-tool")
    tenant.state("slow-tool", "waiting_tool")
    tenant.patch("slow-tool", '{"operatingMode":"Paused"}')
    tenant.kubectl.wait("agentrun/slow-tool", "condition=Paused", 60)
    settle(2)
    assert tenant.status("slow-tool")["state"] == "paused"
    tenant.patch("slow-tool", '{"operatingMode":"Active"}')
    assert tenant.finished("slow-tool")["state"] == "completed"


@pytest.mark.usefixtures("story")
@pytest.mark.parametrize(("mode", "reason"), [("Cancel", "Cancelled"), ("Kill", "Killed")])
def test_a_hung_tool_with_hidden_children_is_stopped_and_proven_quiet_C12_C13(
    tenant: Tenant, mode: str, reason: str
) -> None:
    tenant.apply("hung-tool")
    tenant.state("hung-tool", "waiting_tool")
    tenant.patch("hung-tool", f'{{"stop":{{"mode":"{mode}","message":"enough"}}}}')
    tenant.kubectl.wait("agentrun/hung-tool", "condition=CancelAcknowledged", 10)
    status = tenant.finished("hung-tool", 60)
    assert (status["state"], status["reason"]) == ("failed", reason)
    assert tenant.condition("hung-tool", "Quiescent") == ("True", "Stopped")
    assert tenant.pods() == []
    stamps = status["milestones"]
    assert stamps["cancelRequested"] <= stamps["acknowledged"] <= stamps["quiescent"]


@pytest.mark.usefixtures("story")
def test_cancel_reaches_a_model_call(tenant: Tenant) -> None:
    tenant.apply("slow-model")
    tenant.state("slow-model", "waiting_model", 30)
    tenant.patch("slow-model", '{"stop":{"mode":"Cancel"}}')
    assert tenant.finished("slow-model", 20)["reason"] == "Cancelled"


@pytest.mark.usefixtures("story")
def test_what_this_version_cannot_do_is_refused_by_name(tenant: Tenant) -> None:
    tenant.apply("git-input")
    tenant.until("git-input", "is refused", lambda status: status.get("reason") == "GitInputUnavailable")
    assert tenant.condition("git-input", "Accepted") == ("False", "GitInputUnavailable")
    assert tenant.condition("git-input", "Stalled")[0] == "True"
    assert tenant.condition("git-input", "Finished")[0] == "True", "nobody may wait for ever"
    assert tenant.pods() == []


def test_a_run_that_waits_for_its_definition_can_be_cancelled_and_never_starts(tenant: Tenant) -> None:
    tenant.apply("late-definition")
    tenant.until("late-definition", "waits", lambda status: status.get("reason") == "DefinitionNotFound")
    tenant.patch("late-definition", '{"stop":{"mode":"Cancel","message":"enough"}}')
    assert tenant.finished("late-definition", 20)["reason"] == "Cancelled"
    tenant.apply("late-definition-2")
    settle(3)
    assert tenant.status("late-definition")["reason"] == "Cancelled"
    assert tenant.condition("late-definition", "Finished")[0] == "True"


@pytest.mark.usefixtures("story")
def test_a_budget_that_is_gone_pauses_the_run_with_its_reason(tenant: Tenant) -> None:
    tenant.apply("budget")
    tenant.state("budget", "paused")
    assert tenant.condition("budget", "Paused") == ("True", "BudgetExhausted")
    assert tenant.status("budget")["budget"]["modelCalls"]["used"] == 1


@pytest.mark.usefixtures("story")
def test_not_granted_and_not_found_are_answers_and_the_run_goes_on_C45(tenant: Tenant) -> None:
    tenant.apply("denied")
    assert tenant.finished("denied")["state"] == "completed"


def test_every_state_but_waiting_approval_was_seen(tenant: Tenant, figure: Callable[[str, int], None]) -> None:
    """One run per state that the other stories do not show on their own."""
    seen: set[str] = set()
    tenant.apply("late-definition")
    tenant.state("late-definition", "created")
    seen.add("created")
    tenant.apply("unpullable")
    tenant.until(
        "unpullable", "waits for its Pod", lambda s: s.get("state") in ("running", "ready", "waiting_model"), 30
    )
    seen.add(tenant.status("unpullable")["state"])
    tenant.until("unpullable", "running", lambda s: s.get("state") == "running", 30)
    seen |= {"running"}
    figure("e2e.states_here", len(seen))
