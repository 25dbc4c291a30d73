"""The broker's view: its own watches while they are known to be alive, else the API server itself (design 6)."""

from collections.abc import Callable, Iterable
from typing import Protocol

from agentrun.broker.authority import Object
from agentrun.broker.view import Kind

MAX_AGE_SECONDS = 5.0


class Watched(Protocol):
    """Objects of one kind, kept by a watch."""

    def age(self) -> float:
        """Seconds since the API server last confirmed that nothing is missing; infinite before the first list."""
        ...

    def get(self, namespace: str, name: str) -> Object | None:
        """The object as last seen."""
        ...

    def list(self, namespace: str) -> Iterable[Object]:
        """Those of a namespace."""
        ...


class Reads(Protocol):
    """Reads at the API server. Raise Refused (AuthorityUnavailable) without an answer."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """The object now, None if there is none."""
        ...

    async def list(self, kind: Kind, namespace: str) -> tuple[Object, ...]:
        """Those of a namespace now."""
        ...


class LiveView:
    """A View (see `agentrun.broker.view`)."""

    def __init__(self, watched: Callable[[Kind, str], Watched | None], reads: Reads) -> None:
        self._watched = watched  # the watch of a kind that covers a namespace, if there is one
        self._reads = reads

    async def get(self, kind: Kind, namespace: str, name: str, *, fresh: bool) -> Object | None:
        """One object. What the watch has not seen is asked for: it may be new."""
        watch = None if fresh else self._alive(kind, namespace)
        found = None if watch is None else watch.get(namespace, name)
        return found if found is not None else await self._reads.get(kind, namespace, name)

    async def list(self, kind: Kind, namespace: str, *, fresh: bool) -> tuple[Object, ...]:
        """All of a namespace."""
        watch = None if fresh else self._alive(kind, namespace)
        return await self._reads.list(kind, namespace) if watch is None else tuple(watch.list(namespace))

    def _alive(self, kind: Kind, namespace: str) -> Watched | None:
        watch = self._watched(kind, namespace)
        return watch if watch is not None and watch.age() <= MAX_AGE_SECONDS else None
