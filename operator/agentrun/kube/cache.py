"""A list-then-watch cache of one resource, for processes that kopf does not serve (broker, harness, console)."""

import asyncio
import random
import time
from collections.abc import Iterable

import structlog

from agentrun.kube.client import KubeClient, Object
from agentrun.kube.errors import Expired, KubeError, error_of
from agentrun.kube.resources import Resource

RELIST_SECONDS = 600.0  # a DELETED event lost in a gap is noticed at the latest then (ghosts)
_log = structlog.get_logger()


class WatchCache:
    """Objects by (namespace, name). `run()` is a task of its owner; it ends only by cancellation."""

    def __init__(
        self, client: KubeClient, resource: Resource, *, namespace: str | None = None, labels: str = ""
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._labels = labels
        self._objects: dict[tuple[str, str], Object] = {}
        self._alive_at = float("-inf")
        self.synced = asyncio.Event()

    def age(self) -> float:
        """Seconds since the API server last confirmed that nothing is missing."""
        return time.monotonic() - self._alive_at

    def get(self, namespace: str, name: str) -> Object | None:
        """As last seen."""
        return self._objects.get((namespace, name))

    def list(self, namespace: str) -> Iterable[Object]:
        """Those of a namespace, as last seen."""
        return [found for (where, _), found in self._objects.items() if where == namespace]

    def items(self) -> Iterable[Object]:
        """All, as last seen."""
        return list(self._objects.values())

    async def run(self) -> None:
        """Keep the objects current."""
        failures = 0
        while True:
            try:
                await self._list_and_watch()
                failures = 0
            except Expired:
                continue
            except KubeError as error:
                failures += 1
                _log.warning("watch_failed", resource=self._resource.plural, error=str(error), failures=failures)
                await asyncio.sleep(min(30.0, 0.25 * 2 ** min(failures, 7)) * random.uniform(0.5, 1))  # noqa: S311

    async def _list_and_watch(self) -> None:
        items, version = await self._client.list(self._resource, self._namespace, self._labels)
        self._objects = {_key(item): item for item in items}
        self._confirm()
        self.synced.set()
        until = time.monotonic() + RELIST_SECONDS
        while time.monotonic() < until:
            version = await self._watch(version, max(5, min(300, int(until - time.monotonic()))))

    async def _watch(self, version: str, seconds: int) -> str:
        async with self._client.watch(
            self._resource, version, namespace=self._namespace, labels=self._labels, seconds=seconds
        ) as events:
            async for event in events:
                version = self._take(event, version)
        self._confirm()
        return version

    def _take(self, event: Object, version: str) -> str:
        kind, found = event["type"], event["object"]
        if kind == "ERROR":
            raise error_of(int(found.get("code", 500)), found)
        self._confirm()
        if kind == "DELETED":
            self._objects.pop(_key(found), None)
        elif kind in ("ADDED", "MODIFIED"):
            self._objects[_key(found)] = found
        return str(found["metadata"].get("resourceVersion", version))

    def _confirm(self) -> None:
        self._alive_at = time.monotonic()


def _key(found: Object) -> tuple[str, str]:
    meta = found["metadata"]
    return str(meta.get("namespace", "")), str(meta["name"])
