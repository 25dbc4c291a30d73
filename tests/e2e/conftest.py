"""The installed charts, a tenant's namespace, and processes that can be ended with SIGKILL."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.binaries import binaries_path
from tests.cluster.config import nodes
from tests.cluster.fixtures import Kubectl
from tests.cluster.shell import ClusterError, run, wait_until
from tests.e2e.install import NAMESPACE, install

MANIFESTS = Path(__file__).parent / "manifests"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the installed chart."""
    for item in items:
        if "tests/e2e" in str(item.path):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def installed(kubectl: Kubectl) -> Kubectl:
    """Charts of this checkout, in the embedded mode."""
    install(kubectl)
    return kubectl


class Tenant:
    """A tenant's namespace and what people do in it."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl
        self.name = str(kubectl.namespace)

    def apply(self, name: str) -> None:
        """Apply a manifest of this suite."""
        self.kubectl.apply(MANIFESTS / f"{name}.yaml")

    def run(self, name: str) -> dict[str, Any]:
        """The AgentRun as it is now."""
        found: dict[str, Any] = self.kubectl.json("get", "agentrun", name)
        return found

    def status(self, name: str) -> dict[str, Any]:
        """Its status; empty before the first."""
        found: dict[str, Any] = self.run(name).get("status") or {}
        return found

    def condition(self, name: str, kind: str) -> tuple[str, str]:
        """(status, reason) of a condition."""
        for condition in self.status(name).get("conditions", []):
            if condition["type"] == kind:
                return condition["status"], condition["reason"]
        return "", ""

    def finished(self, name: str, seconds: float = 90) -> dict[str, Any]:
        """Wait as scripts do; returns the status."""
        self.kubectl.wait(f"agentrun/{name}", "condition=Finished", seconds)
        return self.status(name)

    def until(self, name: str, what: str, probe: Callable[[dict[str, Any]], bool], seconds: float = 60) -> None:
        """Poll the status, bounded."""
        try:
            wait_until(f"{name}: {what}", lambda: probe(self.status(name)), seconds, 0.2)
        except ClusterError as error:
            raise ClusterError(f"{error}; now {yaml.safe_dump(self.run(name))}") from None

    def state(self, name: str, state: str, seconds: float = 60) -> None:
        """Wait until the run shows a state."""
        self.until(name, f"state {state}", lambda status: status.get("state") == state, seconds)

    def pods(self) -> list[dict[str, Any]]:
        """Pods of the namespace."""
        return self.kubectl.items("pods")

    def patch(self, name: str, spec: str) -> None:
        """A person's act on a run."""
        self.kubectl("patch", "agentrun", name, "--type=merge", "--patch", f'{{"spec":{spec}}}')


@pytest.fixture
def tenant(installed: Kubectl, namespace: Kubectl) -> Tenant:
    """A fresh namespace that enforces `restricted`."""
    assert installed.kubeconfig == namespace.kubeconfig
    return Tenant(namespace)


class Processes:
    """Our own processes on the cluster."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl.of(NAMESPACE)

    def kill(self, app: str) -> None:
        """SIGKILL the process itself, from the node; returns once another runs."""
        pod = self.pods(app)[0]
        os.kill(self.pid(pod), signal.SIGKILL)
        before = pod["status"]["containerStatuses"][0]["restartCount"]
        wait_until(f"{app} runs again", lambda: self._restarted(pod["metadata"]["name"], before), 90, 0.3)

    def pods(self, app: str) -> list[dict[str, Any]]:
        """Pods of one of our workloads."""
        return self._kubectl.items("pods", "-l", f"app.kubernetes.io/name={app}")

    def pid(self, pod: dict[str, Any]) -> int:
        """The first process of its container, as this machine numbers it."""
        node = next(one for one in nodes("default") if one.name == pod["spec"]["nodeName"])
        ctr = (binaries_path() / "ctr", "--address", node.containerd_socket, "-n", "k8s.io")
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        for line in run(*ctr, "tasks", "list").splitlines():
            if line.startswith(container):
                return int(line.split()[1])
        raise ClusterError(f"no process of {pod['metadata']['name']} runs on {node.name}")

    def _restarted(self, pod: str, before: int) -> bool:
        states = self._kubectl.json("get", "pod", pod)["status"].get("containerStatuses") or []
        return any(state["restartCount"] > before and state["ready"] for state in states)

    def logs(self, app: str) -> str:
        """Everything it said since its start, and the process before it."""
        pod = self.pods(app)[0]["metadata"]["name"]
        return self._kubectl("logs", pod) + self._kubectl("logs", pod, "--previous", check=False)


@pytest.fixture
def processes(installed: Kubectl) -> Processes:
    """Processes that can be killed."""
    return Processes(installed)


@pytest.fixture(scope="session")
def stories() -> set[str]:
    """Names of the stories that were told to their end in this run."""
    return set()


@pytest.fixture
def story(request: pytest.FixtureRequest, stories: set[str], figure: Callable[[str, int], None]) -> Iterator[None]:
    """Counts the test as a story when it passes."""
    yield
    report = getattr(request.node, "call_passed", False)
    if report:
        stories.add(request.node.name)
        figure("e2e.stories", len(stories))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Remember whether the test's own body passed."""
    report = yield
    if report.when == "call":
        item.call_passed = report.passed  # type: ignore[attr-defined]
    return report


def settle(seconds: float) -> None:
    """A span in which nothing may happen: the thing tested is that it stays so."""
    time.sleep(seconds)
