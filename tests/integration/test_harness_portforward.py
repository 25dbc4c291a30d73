"""The port-forward adapter against a real API server and kubelet (design 8)."""

from pathlib import Path

import pytest
from tests.cluster.fixtures import Kubectl

from agentrun.kube.access import access
from agentrun.tools.portforward import PortForwardSandbox
from agentrun.tools.sandbox import SandboxEndpoint, SandboxUnreachable

HEALTH_PORT, CLOSED_PORT = 8080, 9


def coredns(kubectl: Kubectl) -> SandboxEndpoint:
    """A Pod with an HTTP server that every cluster has."""
    pod = kubectl.of("kube-system").items("pods", "-l", "k8s-app=kube-dns")[0]
    return SandboxEndpoint("kube-system", pod["metadata"]["name"], pod["metadata"]["uid"], "", "")


@pytest.mark.cluster
async def test_a_dispatch_reaches_a_pod_through_the_api_server(kubectl: Kubectl, kubeconfig: Path) -> None:
    port = PortForwardSandbox(await access(kubeconfig), HEALTH_PORT)
    answer = await port.dispatch(coredns(kubectl), "jws", b"x" * 600_000, 20)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


@pytest.mark.cluster
async def test_a_port_that_nobody_listens_on_is_dialled_again_and_then_said(kubectl: Kubectl, kubeconfig: Path) -> None:
    port = PortForwardSandbox(await access(kubeconfig), CLOSED_PORT)
    with pytest.raises(SandboxUnreachable, match=r"answer|refused"):
        await port.dispatch(coredns(kubectl), "jws", b"x", 2)
