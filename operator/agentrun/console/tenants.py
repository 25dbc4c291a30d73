"""A namespace's tenant: the cluster's UID and the UID that this namespace has now."""

import time
from collections.abc import Callable

from agentrun.console.refusal import Refusal
from agentrun.core.ids import Tenant
from agentrun.kube import KubeClient, KubeError
from agentrun.kube.resources import NAMESPACES

KEPT_SECONDS = 5.0  # a namespace made anew under its old name is another tenant


class Tenants:
    """Raises Refusal: 404 for a namespace that is gone, 503 when the API server does not answer."""

    def __init__(self, kube: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._cluster = ""
        self._known: dict[str, tuple[float, Tenant]] = {}

    async def of(self, namespace: str) -> Tenant:
        """The tenant of a namespace."""
        until, tenant = self._known.get(namespace, (0.0, None))
        if tenant is None or self._clock() >= until:
            tenant = await self._ask(namespace)
            self._known = {name: kept for name, kept in self._known.items() if kept[0] > self._clock()}
            self._known[namespace] = (self._clock() + KEPT_SECONDS, tenant)
        return tenant

    async def _ask(self, namespace: str) -> Tenant:
        try:
            if not self._cluster:
                self._cluster = str((await self._kube.get(NAMESPACES, "kube-system"))["metadata"]["uid"])
            found = await self._kube.find(NAMESPACES, namespace)
        except KubeError as error:
            message = f"the API server did not answer ({error}): try again"
            raise Refusal(503, "AuthorityUnavailable", message) from error
        if found is None:
            raise Refusal(404, "NotFound", f"there is no namespace {namespace}")
        return Tenant(self._cluster, str(found["metadata"]["uid"]))
