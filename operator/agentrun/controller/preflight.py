"""Before the operator starts: the API it needs is there, and is not older than this build (C67)."""

import asyncio

from agentrun.api.installed import all_missing
from agentrun.core.errors import AgentrunError
from agentrun.kube import KubeClient, KubeError
from agentrun.kube.resources import CRDS, NAMESPACES

TRIES = 30
PAUSE_SECONDS = 1.0


class NotInstalled(AgentrunError):
    """The CRDs are missing or older than this build; the message names the fields and the command."""


async def check_api(kube: KubeClient) -> None:
    """Raises NotInstalled naming what is missing: an old CRD would silently drop a limiting field."""
    items, _ = await kube.list(CRDS)
    installed = {item["metadata"]["name"]: item for item in items if item["spec"]["group"] == "agentrun.dev"}
    missing = all_missing(installed)
    if missing:
        told = "; ".join(f"{name}: {', '.join(fields[:10])}" for name, fields in sorted(missing.items()))
        raise NotInstalled(f"the installed CRDs are missing or too old ({told}): upgrade the chart agentrun-crds first")


async def cluster_id(kube: KubeClient) -> str:
    """UID of kube-system; waits for an API server that is starting."""
    for attempt in range(TRIES):
        try:
            found = await kube.get(NAMESPACES, "kube-system")
        except KubeError:
            if attempt == TRIES - 1:
                raise
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            return str(found["metadata"]["uid"])
    raise AssertionError
