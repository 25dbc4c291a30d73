"""Separate processes on PostgreSQL, two of each: work changes hands, the old holder writes nothing (R11, C3)."""

import datetime as dt
import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.config import CONTROL_PLANE_IP
from tests.cluster.fixtures import Audit, Kubectl
from tests.cluster.shell import wait_until
from tests.e2e.conftest import Processes, Tenant
from tests.e2e.install import NAMESPACE, install
from tests.integration.postgres import PostgresServer, programs


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """URL of a PostgreSQL that the cluster's Pods reach."""
    if os.environ.get("AGENTRUN_KUBECONFIG"):
        pytest.skip("a database beside the cluster needs the local cluster: this run was given another one")
    programs()
    folder = Path(tempfile.mkdtemp(prefix="agentrun-postgres-"))
    folder.chmod(0o755)
    server = PostgresServer(folder, CONTROL_PLANE_IP)
    server.start()
    password = uuid.uuid4().hex
    server.login("agentrun", password)
    yield f"postgresql://agentrun:{password}@{CONTROL_PLANE_IP}:{server.port}/postgres"
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def separate(installed: Kubectl, database: str) -> Iterator[Processes]:
    """The same release, switched by values to separate processes; switched back afterwards."""
    ours = installed.of(NAMESPACE)
    ours("create", "secret", "generic", "agentrun-journal", f"--from-literal=url={database}")
    install(installed, "mode=postgres", "postgres.urlSecret=agentrun-journal")
    yield Processes(installed)
    install(installed)
    ours("delete", "secret", "agentrun-journal")


@pytest.fixture
def tenant(separate: Processes, namespace: Kubectl) -> Tenant:
    """A fresh namespace beside the separate processes."""
    assert separate.pods("agentrun-harness")
    return Tenant(namespace)


@pytest.mark.usefixtures("story")
def test_separate_processes_on_postgresql_do_the_same_work(tenant: Tenant, separate: Processes) -> None:
    assert len(separate.pods("agentrun-operator")) == len(separate.pods("agentrun-harness")) == 2
    for name in ("busybox", "reference"):
        tenant.apply(name)
    for name in ("busybox", "reference"):
        assert tenant.finished(name, 120)["state"] == "completed", name


def test_both_harnesses_killed_in_flight_the_run_goes_on_R6(
    tenant: Tenant, separate: Processes, figure: Callable[[str, int], None]
) -> None:
    tenant.apply("slow-tool")
    tenant.state("slow-tool", "waiting_tool")
    for pod in separate.pods("agentrun-harness"):
        os.kill(separate.pid(pod), signal.SIGKILL)
    assert tenant.finished("slow-tool", 150)["result"]["summary"] == "Counted."
    figure("separate.harnesses_killed", 2)


def test_an_old_leader_that_wakes_writes_nothing_C3(tenant: Tenant, separate: Processes, audit: Audit) -> None:
    old = _leader(separate, tenant.kubectl)
    pid = separate.pid(old)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(
            "another operator leads", lambda: _leading(separate, tenant.kubectl) not in ("", _name(old)), 60, 0.5
        )
        tenant.apply("slow-tool")
        tenant.state("slow-tool", "waiting_tool")
    finally:
        woken = time.time()
        os.kill(pid, signal.SIGCONT)
    assert tenant.finished("slow-tool", 150)["state"] == "completed"
    written = [event for event in audit.writes(lambda event: _by(event, old) and _wrote(event)) if _time(event) > woken]
    assert not written, [event["requestURI"] for event in written]


def _leading(separate: Processes, kubectl: Kubectl) -> str:
    """Name of the operator's Pod that holds the lease now; empty between two holders."""
    lease = kubectl.of(NAMESPACE).json("get", "lease", "agentrun-operator")["spec"]
    holder = (lease.get("holderIdentity") or "").rpartition("_")[0]
    return holder if holder in {_name(pod) for pod in separate.pods("agentrun-operator")} else ""


def _leader(separate: Processes, kubectl: Kubectl) -> dict[str, Any]:
    wait_until("an operator leads", lambda: bool(_leading(separate, kubectl)), 60, 0.5)
    name = _leading(separate, kubectl)
    return next(pod for pod in separate.pods("agentrun-operator") if _name(pod) == name)


def _name(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])


def _by(event: dict[str, Any], pod: dict[str, Any]) -> bool:
    extra = event["user"].get("extra") or {}
    return bool(extra.get("authentication.kubernetes.io/pod-uid") == [pod["metadata"]["uid"]])


def _wrote(event: dict[str, Any]) -> bool:
    """A write that was let through; its own lease aside (it gives it back, or fails to)."""
    writes = event["verb"] in ("create", "update", "patch", "delete")
    review = event["objectRef"]["resource"] in ("leases", "tokenreviews", "subjectaccessreviews", "selfsubjectreviews")
    return writes and not review and event["responseStatus"]["code"] < 300


def _time(event: dict[str, Any]) -> float:
    return dt.datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
