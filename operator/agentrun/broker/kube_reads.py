"""The Kubernetes API as the broker's ports want it. Whoever cannot say anything says AuthorityUnavailable."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, assert_never

from agentrun.broker.authority import Object
from agentrun.broker.refusal import Refused
from agentrun.broker.view import Kind
from agentrun.core.errors import ErrorClass
from agentrun.kube import AlreadyExists, KubeClient, KubeError
from agentrun.kube.resources import (
    CLASSES,
    CONFIG_MAPS,
    DEFINITIONS,
    GRANTS,
    PODS,
    REVISIONS,
    RUNS,
    SECRETS,
    Resource,
)

_Answer = TypeVar("_Answer")


def resource_of(kind: Kind) -> Resource:
    """The resource that serves a kind."""
    match kind:
        case Kind.RUN:
            return RUNS
        case Kind.DEFINITION:
            return DEFINITIONS
        case Kind.REVISION:
            return REVISIONS
        case Kind.GRANT:
            return GRANTS
        case Kind.CLASS:
            return CLASSES
        case Kind.POD:
            return PODS
        case _:
            assert_never(kind)


class KubeReads:
    """Reads for decisions, secrets of the platform namespace, and token reviews."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """One object now."""
        return await _said(lambda: self._kube.find(resource_of(kind), name, namespace or None))

    async def list(self, kind: Kind, namespace: str) -> tuple[Object, ...]:
        """Those of a namespace now."""
        items, _ = await _said(lambda: self._kube.list(resource_of(kind), namespace))
        return tuple(items)

    async def secret(self, name: str) -> Object | None:
        """A Secret of the platform namespace."""
        return await _said(lambda: self._kube.find(SECRETS, name, self._namespace))

    async def review(self, token: str, audience: str) -> dict[str, Any]:
        """Status of a TokenReview."""
        return await _said(lambda: self._kube.token_review(token, audience))

    async def create_secret(self, secret: Object) -> bool:
        """Whether it was made."""
        try:
            await self._kube.create(SECRETS, secret, self._namespace)
        except AlreadyExists:
            return False
        except KubeError as error:
            raise unavailable(error) from None
        return True

    async def apply_config_map(self, config_map: Object, field_manager: str) -> None:
        """Server-side apply."""
        await _said(lambda: self._kube.apply(CONFIG_MAPS, config_map, manager=field_manager))


async def _said(ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
    try:
        return await ask()
    except KubeError as error:
        raise unavailable(error) from None


def unavailable(error: KubeError) -> Refused:
    """No answer, or none that the broker may see, is never a yes."""
    return Refused(ErrorClass.AUTHORITY_UNAVAILABLE, f"the Kubernetes API gave no answer to decide by: {error}")
