"""The broker's own watches: one of each kind for the whole cluster, or for each of the watched namespaces."""

import asyncio
from collections.abc import Iterator

from agentrun.broker.authority import DEFINITION_LABEL, RUN_UID_LABEL
from agentrun.broker.kube_reads import resource_of
from agentrun.broker.view import Kind
from agentrun.kube import KubeClient
from agentrun.kube.cache import WatchCache

_LABELS = {Kind.REVISION: DEFINITION_LABEL, Kind.POD: RUN_UID_LABEL}


class Watches:
    """Runs the caches; `of` finds the one that covers a namespace."""

    def __init__(self, kube: KubeClient, namespaces: tuple[str, ...]) -> None:
        self._caches = {
            (kind, namespace): WatchCache(
                kube, resource_of(kind), namespace=namespace or None, labels=_LABELS.get(kind, "")
            )
            for kind in Kind
            for namespace in _scopes(kind, namespaces)
        }
        self._all = not namespaces

    def of(self, kind: Kind, namespace: str) -> WatchCache | None:
        """The cache of a kind for a namespace."""
        return self._caches.get((kind, "" if self._all else namespace))

    def missing(self) -> str | None:
        """What has not been listed yet, for the readiness probe."""
        waiting = sorted({kind.value for (kind, _), cache in self._caches.items() if not cache.synced.is_set()})
        return f"not listed yet: {', '.join(waiting)}" if waiting else None

    def tasks(self) -> Iterator[asyncio.Task[None]]:
        """Start every watch."""
        for (kind, namespace), cache in self._caches.items():
            yield asyncio.create_task(cache.run(), name=f"watch {kind.value} {namespace}")


def _scopes(kind: Kind, namespaces: tuple[str, ...]) -> tuple[str, ...]:
    return namespaces if namespaces and kind is not Kind.CLASS else ("",)
