"""pytest fixtures of the real cluster: kubectl, a namespace per test, nodes that die, the audit log."""

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster import lifecycle, node, processes
from tests.cluster.__main__ import uses_kind
from tests.cluster.binaries import binaries_path
from tests.cluster.config import Node, kubeconfig_path, nodes, state_dir
from tests.cluster.shell import ClusterError, run, wait_until

RETRIED = ("There can be a delay", "storage is (re)initializing", "error looking up service account", "try again later")


class Kubectl:
    """A thin wrapper: JSON out, errors as ClusterError with what the API server said."""

    def __init__(self, kubeconfig: Path, namespace: str | None = None, program: str = "kubectl") -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.program = program

    def __call__(
        self, *arguments: str | Path, check: bool = True, data: str | None = None, timeout: float = 120
    ) -> str:
        """Run kubectl in this namespace."""
        where = ("-n", self.namespace) if self.namespace else ()
        command = (self.program, f"--kubeconfig={self.kubeconfig}", *where, *arguments)
        return run(*command, check=check, data=data, timeout=timeout)

    def of(self, namespace: str) -> "Kubectl":
        """The same for another namespace."""
        return Kubectl(self.kubeconfig, namespace, self.program)

    def json(self, *arguments: str) -> Any:
        """Parsed `-o json`."""
        return json.loads(self(*arguments, "-o", "json"))

    def items(self, *arguments: str) -> list[Any]:
        """Items of a list."""
        found: list[Any] = self.json("get", *arguments)["items"]
        return found

    def exists(self, *arguments: str) -> bool:
        """Whether the object is there."""
        return bool(self("get", *arguments, "--ignore-not-found", "-o", "name").strip())

    def apply(self, *documents: dict[str, Any] | Path | str, seconds: float = 45) -> str:
        """Server-side apply; retried while a new CRD or namespace is not ready to be written."""
        out = ""
        for document in documents:
            out += self._apply(document, time.monotonic() + seconds)
        return out

    def _apply(self, document: dict[str, Any] | Path | str, end: float) -> str:
        data = (
            yaml.safe_dump(document) if isinstance(document, dict) else document if isinstance(document, str) else None
        )
        source = "-" if data is not None else str(document)
        while True:
            try:
                return self("apply", "--server-side", "--force-conflicts", "-f", source, data=data)
            except ClusterError as error:
                if time.monotonic() > end or not any(word in str(error) for word in RETRIED):
                    raise
                time.sleep(0.5)

    def wait(self, what: str, condition: str, seconds: float = 60) -> None:
        """`kubectl wait --for=…`."""
        self("wait", what, f"--for={condition}", f"--timeout={seconds:.0f}s", timeout=seconds + 20)


@pytest.fixture(scope="session")
def kubeconfig() -> Iterator[Path]:
    """AGENTRUN_KUBECONFIG, or the local cluster: started if none runs, and then ended after the tests."""
    given = os.environ.get("AGENTRUN_KUBECONFIG")
    if given:
        yield Path(given)
        return
    if uses_kind():
        from tests.cluster import kind

        yield kind.up()
        return
    ours = lifecycle.ensure()
    yield kubeconfig_path("default")
    if ours and not os.environ.get("AGENTRUN_KEEP_CLUSTER"):
        lifecycle.down()


@pytest.fixture(scope="session")
def kubectl(kubeconfig: Path) -> Kubectl:
    """kubectl as the cluster's administrator."""
    program = binaries_path() / "kubectl"
    return Kubectl(kubeconfig, program=str(program) if program.exists() else "kubectl")


@pytest.fixture
def namespace(kubectl: Kubectl) -> Iterator[Kubectl]:
    """kubectl in a fresh namespace that enforces Pod Security `restricted`."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    wait_until("the namespace has its account", lambda: kubectl.of(name).exists("serviceaccount", "default"), 30)
    yield kubectl.of(name)
    kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


class NodeControl:
    """Ends, drains and brings back nodes of the local cluster."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._nodes = {one.name: one for one in nodes("default")}

    def kill(self, name: str) -> None:
        """The whole node dies: its processes and its containers, at once, with SIGKILL."""
        from tests.cluster.resources import cgroup_processes

        one = self._nodes[name]
        for part in node.PARTS:
            processes.stop("default", node.part(one, part), how=_kill_signal())
        for pid in set(cgroup_processes(one.cgroup)):
            _end(pid)

    def drain(self, name: str) -> None:
        """`kubectl drain`."""
        self._kubectl("drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=60s")

    def restore(self, name: str) -> None:
        """Start what has ended and take the node back; returns when it is Ready."""
        one = self._nodes[name]
        binaries = binaries_path()
        self._revive(one, "containerd")
        node.wait_runtime(one, binaries)
        end = time.monotonic() + 60
        while not self._settled(
            one
        ):  # the kubelet ends while containerd still loads its plugins: an init starts it again
            if time.monotonic() > end:
                raise ClusterError(f"kubelet and kube-proxy of {name} do not stay up")
        lifecycle.wait_node_ready(one, binaries)
        if not processes.alive("default", node.part(one, "kube-router")):
            processes.restart("default", node.part(one, "kube-router"))
        self._kubectl("uncordon", name)

    def _settled(self, one: Node) -> bool:
        for part in ("kubelet", "kube-proxy"):
            self._revive(one, part)
        time.sleep(2)
        return all(processes.alive("default", node.part(one, part)) for part in ("kubelet", "kube-proxy"))

    def _revive(self, one: Node, part: str) -> None:
        if not processes.alive("default", node.part(one, part)):
            processes.restart("default", node.part(one, part))


def _kill_signal() -> Any:
    import signal

    return signal.SIGKILL


def _end(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return


@pytest.fixture
def node_control(kubectl: Kubectl) -> Iterator[NodeControl]:
    """Nodes that can be ended; every node is back and Ready afterwards."""
    if os.environ.get("AGENTRUN_KUBECONFIG") or uses_kind():
        pytest.skip("ending a node needs the local cluster: this run was given another one")
    control = NodeControl(kubectl)
    yield control
    for one in nodes("default"):
        control.restore(one.name)


class Audit:
    """Writes the API server has seen since this object was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = path.stat().st_size

    def writes(self, keep: Callable[[dict[str, Any]], bool] = lambda _event: True) -> list[dict[str, Any]]:
        """Finished write requests, as audit events."""
        with self._path.open("rb") as file:
            file.seek(self._start)
            lines = file.read().splitlines()
        events = [json.loads(line) for line in lines if line.endswith(b"}")]
        return [event for event in events if event["stage"] == "ResponseComplete" and keep(event)]


@pytest.fixture
def audit(kubeconfig: Path) -> Audit:  # noqa: ARG001 - the cluster must be up
    """The audit log from here on."""
    path = state_dir("default") / "audit.log"
    if os.environ.get("AGENTRUN_KUBECONFIG") or not path.exists():
        pytest.skip("the audit log of a cluster that was given cannot be read")
    return Audit(path)


def node_named(name: str) -> Node:
    """The local node of that name."""
    return next(one for one in nodes("default") if one.name == name)
