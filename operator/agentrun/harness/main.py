"""`run_harness`: one worker wired to broker, sandboxes and the API server."""

import asyncio
from typing import Any

from agentrun.broker.connect import broker_client
from agentrun.harness.ports import Limits, PodIdentity, PodsUnavailable, World
from agentrun.harness.worker import Worker
from agentrun.journal.port import Journal
from agentrun.kube import KubeClient, KubeError
from agentrun.kube.access import ACCOUNT
from agentrun.kube.resources import PODS
from agentrun.settings import Settings
from agentrun.tools.podip import PodIPSandbox
from agentrun.tools.portforward import PortForwardSandbox
from agentrun.tools.sandbox import SandboxPort

Object = dict[str, Any]
CONTAINER = "sandbox"


class KubePods:
    """Fresh reads of Pods at the API server."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def identity(self, namespace: str, name: str) -> PodIdentity | None:
        """None if there is no such Pod. Raises PodsUnavailable."""
        try:
            pod = await self._kube.find(PODS, name, namespace)
        except KubeError as error:
            raise PodsUnavailable(f"Pod {namespace}/{name} cannot be read: {error}") from error
        if pod is None:
            return None
        status: Object = pod.get("status") or {}
        states: list[Object] = status.get("containerStatuses") or []
        containers = {str(state["name"]): str(state.get("containerID", "")) for state in states}
        return PodIdentity(pod["metadata"]["uid"], status.get("podIP", ""), containers.get(CONTAINER, ""))


def sandbox_port(kube: KubeClient) -> SandboxPort:
    """Straight to the Pod from inside the cluster, through the API server from anywhere else."""
    return PodIPSandbox() if (ACCOUNT / "token").exists() else PortForwardSandbox(kube.access)


async def run_harness(settings: Settings, journal: Journal, stop: asyncio.Event, kube: KubeClient) -> None:
    """Take runs under lease until `stop`; then hand over."""
    limits = Limits(workers=settings.workers, lease=settings.lease_seconds, renew=settings.renew_seconds)
    async with broker_client(settings, kube) as broker:
        await Worker(World(journal, broker, sandbox_port(kube), KubePods(kube), limits)).run(stop)
