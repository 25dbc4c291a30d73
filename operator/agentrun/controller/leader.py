"""One operator at a time, by a Lease: released on the way out, and the process ends when it is lost (design 2)."""

import asyncio
import contextlib
import datetime as dt
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from agentrun.core.errors import AgentrunError
from agentrun.kube import AlreadyExists, KubeClient, KubeError
from agentrun.kube.resources import LEASES
from agentrun.settings import Settings

Object = dict[str, Any]
NAME = "agentrun-operator"
SECONDS = 15
RENEW_SECONDS = 4.0
RETRY_SECONDS = 1.0
_log = structlog.get_logger()


class LeadershipLost(AgentrunError):
    """Another operator leads, or the lease could not be renewed in time: this process must not act any more."""


async def leading(
    kube: KubeClient, settings: Settings, stop: asyncio.Event, work: Callable[[asyncio.Event], Awaitable[None]]
) -> None:
    """Wait for the lease, do the work while it holds, give it back. Raises LeadershipLost."""
    lease = LeaderLease(kube, settings.operator_namespace)
    if not await lease.wait(stop):
        return
    keeper = asyncio.create_task(lease.keep())
    worker = asyncio.ensure_future(work(stop))
    try:
        done, _ = await asyncio.wait({keeper, worker}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (keeper, worker):
            task.cancel()
        await asyncio.gather(keeper, worker, return_exceptions=True)
        await lease.release()


class LeaderLease:
    """A coordination Lease under optimistic locking; what another wrote is judged by our own clock."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._me = f"{socket.gethostname()}_{uuid.uuid4()}"  # the Pod's name, and never twice the same
        self._seen: tuple[str, float] = ("", 0.0)  # renewTime as written, and when we first saw it

    async def wait(self, stop: asyncio.Event) -> bool:
        """True once it is ours; False if `stop` comes first."""
        while not stop.is_set():
            with contextlib.suppress(KubeError):
                if await self._try():
                    _log.info("leading", identity=self._me)
                    return True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), RETRY_SECONDS)
        return False

    async def keep(self) -> None:
        """Renew; raises LeadershipLost, at the latest while the lease still holds: an API server may hang."""
        renewed, why = time.monotonic(), ""
        while True:
            await asyncio.sleep(RETRY_SECONDS if why else RENEW_SECONDS)
            begun = time.monotonic()
            try:
                async with asyncio.timeout(max(0.0, renewed + SECONDS - RENEW_SECONDS - begun)):
                    held = await self._try()
            except TimeoutError:
                raise LeadershipLost(f"the leader's lease could not be renewed in time{why}") from None
            except KubeError as error:
                why = f": {error}"
                continue
            if not held:
                raise LeadershipLost("another operator leads")
            renewed, why = begun, ""

    async def release(self) -> None:
        """Let the next one in at once."""
        with contextlib.suppress(KubeError):
            found = await self._kube.find(LEASES, NAME, self._namespace)
            if found is not None and found["spec"].get("holderIdentity") == self._me:
                await self._put(found, "")

    async def _try(self) -> bool:
        found = await self._kube.find(LEASES, NAME, self._namespace)
        if found is None:
            return await self._create()
        holder, renewed = found["spec"].get("holderIdentity") or "", found["spec"].get("renewTime") or ""
        if holder not in ("", self._me) and not self._expired(renewed):
            return False
        await self._put(found, self._me)
        return True

    def _expired(self, renewed: str) -> bool:
        if self._seen[0] != renewed:
            self._seen = (renewed, time.monotonic())
        return time.monotonic() - self._seen[1] > SECONDS

    async def _create(self) -> bool:
        meta = {"name": NAME, "namespace": self._namespace}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": self._spec(self._me)}
        try:
            await self._kube.create(LEASES, body, self._namespace)
        except AlreadyExists:
            return False
        return True

    async def _put(self, found: Object, holder: str) -> None:
        body = {**found, "spec": {**found["spec"], **self._spec(holder)}}
        await self._kube.request("PUT", LEASES.path(self._namespace, NAME), body=body)

    def _spec(self, holder: str) -> Object:
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"holderIdentity": holder, "leaseDurationSeconds": SECONDS, "renewTime": now}
