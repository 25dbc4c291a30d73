"""The installed chart on the test cluster, for figures that need it: started, installed and cleaned as the tests do."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.cluster import lifecycle
from tests.cluster.__main__ import uses_kind
from tests.cluster.binaries import binaries_path
from tests.cluster.config import kubeconfig_path, state_dir
from tests.cluster.fixtures import Audit, Kubectl
from tests.cluster.shell import ClusterError
from tests.e2e.install import install

MANIFESTS = Path(__file__).parents[1] / "e2e" / "manifests"


@contextlib.contextmanager
def installed_chart() -> Iterator[Kubectl]:
    """kubectl as administrator of the local cluster with this checkout's chart. Raises ClusterError elsewhere."""
    if os.environ.get("AGENTRUN_KUBECONFIG") or uses_kind():
        raise ClusterError("this figure reads processes and the audit log: it needs the project's own local cluster")
    ours = lifecycle.ensure()
    kubectl = Kubectl(kubeconfig_path("default"), program=str(binaries_path() / "kubectl"))
    install(kubectl)
    try:
        yield kubectl
    finally:
        if ours and not os.environ.get("AGENTRUN_KEEP_CLUSTER"):
            lifecycle.down()


@contextlib.contextmanager
def tenant(kubectl: Kubectl) -> Iterator[Kubectl]:
    """A namespace that enforces `restricted`."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    try:
        yield kubectl.of(name)
    finally:
        kubectl("delete", "namespace", name, "--wait=false")


def audit() -> Audit:
    """The API server's audit log from here on."""
    return Audit(state_dir("default") / "audit.log")
