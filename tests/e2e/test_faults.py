"""Faults between us and the API server or the kubelet, made on the real ones (C1, C2, C6, C14, C58, C60, C67)."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.fixtures import Audit, Kubectl
from tests.e2e.conftest import Processes, Tenant, settle
from tests.e2e.plugin import Plugin

REFUSES = "test-refuse-status"
DENY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": REFUSES},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["agentrun.dev"],
                    "apiVersions": ["v1alpha1"],
                    "operations": ["UPDATE"],
                    "resources": ["agentruns/status"],
                }
            ]
        },
        "validations": [{"expression": "false", "message": "refused by a test"}],
    },
}


@contextmanager
def refused_status(kubectl: Kubectl) -> Iterator[None]:
    """Every status write fails while this holds."""
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": REFUSES},
        "spec": {"policyName": REFUSES, "validationActions": ["Deny"]},
    }
    kubectl.apply(DENY, binding)
    settle(2)  # policies are compiled and spread within a second
    try:
        yield
    finally:
        kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", REFUSES)


def pods_made(audit: Audit, tenant: Tenant) -> list[str]:
    """Names of the Pods created in the tenant's namespace, by the audit log."""

    def created(event: dict[str, Any]) -> bool:
        ref = event["objectRef"]
        pod = (ref["resource"], ref.get("namespace"), ref.get("subresource")) == ("pods", tenant.name, None)
        return pod and event["responseStatus"]["code"] == 201

    return [event["objectRef"]["name"] for event in audit.writes(created)]


def test_refused_status_writes_make_no_second_sandbox_C6(tenant: Tenant, audit: Audit) -> None:
    with refused_status(tenant.kubectl):
        tenant.apply("busybox")
        settle(12)
        assert tenant.status("busybox") == {}
    assert tenant.finished("busybox")["state"] == "completed"
    assert len(pods_made(audit, tenant)) == 1


def test_labels_that_churn_while_the_sandbox_is_made_make_no_second_one_C1(tenant: Tenant, audit: Audit) -> None:
    stop = threading.Event()

    def churn() -> None:
        for number in range(500):
            if stop.is_set():
                return
            tenant.kubectl("label", "agentrun", "busybox", f"churn=n{number}", "--overwrite", check=False)

    worker = threading.Thread(target=churn)
    worker.start()
    try:
        tenant.apply("busybox")
        assert tenant.finished("busybox")["state"] == "completed"
    finally:
        stop.set()
        worker.join()
    assert len(pods_made(audit, tenant)) == 1
    assert tenant.run("busybox")["metadata"]["labels"]["churn"].startswith("n"), "a user's labels stay the user's"


def test_a_pod_deleted_right_after_the_end_changes_nothing_C2(tenant: Tenant) -> None:
    tenant.apply("busybox")
    status = tenant.finished("busybox")
    tenant.kubectl("delete", "pods", "--all", "--grace-period=0", "--force", check=False)
    settle(4)
    assert tenant.status("busybox")["state"] == status["state"] == "completed"
    assert tenant.status("busybox")["head"]["seq"] >= status["head"]["seq"]


def test_of_pause_and_resume_in_a_row_the_last_one_wins_C14(tenant: Tenant) -> None:
    tenant.apply("slow-tool")
    tenant.state("slow-tool", "waiting_tool")
    for mode in ("Paused", "Active") * 5:
        tenant.patch("slow-tool", f'{{"operatingMode":"{mode}"}}')
    assert tenant.finished("slow-tool")["state"] == "completed"
    assert tenant.condition("slow-tool", "Paused")[0] == "False"


def test_a_container_restarted_in_place_is_told_as_such_C58(
    tenant: Tenant, processes: Processes, plugin: Plugin
) -> None:
    tenant.apply("slow-tool")
    tenant.state("slow-tool", "waiting_tool")
    os.kill(processes.pid(tenant.pods()[0]), signal.SIGKILL)
    assert tenant.finished("slow-tool", 120)["state"] == "completed"
    answers = [event["body"] for event in plugin.lines("events", "slow-tool") if event["kind"] == "ToolCompleted"]
    assert answers[0]["error_class"] == "SandboxReplaced"
    assert answers[1]["status"] == "Ok", "the next call runs in the container that came up"


def test_a_registry_that_never_answers_is_progress_and_no_network_fault_C60(tenant: Tenant) -> None:
    """Packets to it vanish: the kubelet reports nothing for half a minute."""
    tenant.apply("slow-registry")
    tenant.until("slow-registry", "pulls", lambda status: _sandbox(status)[0] == "Pulling", 20)
    seen = set()
    end = time.monotonic() + 15
    while time.monotonic() < end:
        reason, message = _sandbox(tenant.status("slow-registry"))
        seen.add(reason)
        assert " s" in message
        time.sleep(0.5)
    assert {"Pulling"} <= seen <= {"Pulling", "Starting"}, "the guard may start meanwhile; nothing has failed"


def _sandbox(status: dict[str, Any]) -> tuple[str, str]:
    for condition in status.get("conditions", []):
        if condition["type"] == "SandboxReady":
            return condition["reason"], condition.get("message", "")
    return "", ""


def test_the_operator_refuses_to_start_on_an_older_crd_and_names_the_fields_C67(
    installed: Kubectl, tmp_path: Path
) -> None:
    name = "agentruns.agentrun.dev"
    before = installed.json("get", "crd", name)
    older = {key: before[key] for key in ("apiVersion", "kind")} | {"spec": before["spec"]}
    older["metadata"] = {"name": name}
    spec = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    whole = dict(spec["budget"]["properties"])
    del spec["budget"]["properties"]["costMicroUSD"]
    installed("replace", "-f", "-", data=_json(older | {"metadata": _replaceable(before)}))
    try:
        done = _operator(installed, tmp_path)
    finally:
        spec["budget"]["properties"] = whole
        current = installed.json("get", "crd", name)
        installed("replace", "-f", "-", data=_json(older | {"metadata": _replaceable(current)}))
    assert done.returncode == 1
    assert "costMicroUSD" in done.stderr
    assert "agentrun-crds" in done.stderr


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document)


def _replaceable(found: dict[str, Any]) -> dict[str, Any]:
    kept = ("name", "resourceVersion", "labels", "annotations")
    return {key: found["metadata"][key] for key in kept if key in found["metadata"]}


def _operator(kubectl: Kubectl, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "AGENTRUN_KUBECONFIG": str(kubectl.kubeconfig),
        "AGENTRUN_JOURNAL_URL": f"sqlite:///{folder}/journal.db",
        "AGENTRUN_HEALTH_PORT": "18181",
        "AGENTRUN_TOOL_SERVER_IMAGE": "none",
        "AGENTRUN_OPERATOR_NAMESPACE": "default",
    }
    command = [sys.executable, "-m", "agentrun.cli.main", "operator"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def plugin(tenant: Tenant) -> Plugin:
    return Plugin(tenant.kubectl.kubeconfig, tenant.name)


def test_every_condition_is_waited_for_by_kubectl_R0(tenant: Tenant) -> None:
    tenant.apply("busybox")
    for condition in ("Accepted", "Admitted", "Complete", "Finished", "Quiescent"):
        tenant.kubectl.wait("agentrun/busybox", f"condition={condition}", 60)
    for condition in ("Failed", "Paused", "NeedsReconciliation", "ApprovalRequired", "CancelAcknowledged", "Stalled"):
        tenant.kubectl.wait("agentrun/busybox", f"condition={condition}=False", 10)
