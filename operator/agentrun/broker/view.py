"""The port through which the broker sees Kubernetes objects, and what it reads for one decision."""

import asyncio
from enum import StrEnum
from typing import Protocol

from agentrun.broker.authority import Authority, Object
from agentrun.broker.wire import RunName


class Kind(StrEnum):
    """Kinds that decisions are made from."""

    RUN = "AgentRun"
    DEFINITION = "AgentDefinition"
    REVISION = "ControllerRevision"
    GRANT = "ToolGrant"
    CLASS = "AgentClass"
    POD = "Pod"


class View(Protocol):
    """Objects at most 5 s old, or read at the API server this very moment."""

    async def get(self, kind: Kind, namespace: str, name: str, *, fresh: bool) -> Object | None:
        """One object, None if it does not exist. Raises Refused (AuthorityUnavailable): nobody could say."""
        ...

    async def list(self, kind: Kind, namespace: str, *, fresh: bool) -> tuple[Object, ...]:
        """All objects of a namespace. Raises Refused (AuthorityUnavailable)."""
        ...


def revision_name(definition: str, template_digest: str) -> str:
    """Name of the ControllerRevision that mirrors a template (decision 0002)."""
    return f"{definition}-{template_digest.removeprefix('sha256:')[:10]}"


async def read_authority(view: View, run: RunName, digest: str, pod: str | None, *, fresh: bool) -> Authority:
    """Everything one decision needs; grants and Pod only for a dispatch to a sandbox (`pod` is its name)."""
    namespace = run.namespace
    found = await view.get(Kind.RUN, namespace, run.name, fresh=fresh)
    if found is None:
        return Authority(None, None, None, None)
    definition = str(found["spec"]["definitionRef"]["name"])
    revision, owner, grants, sandbox = await asyncio.gather(
        view.get(Kind.REVISION, namespace, revision_name(definition, digest), fresh=fresh),
        view.get(Kind.DEFINITION, namespace, definition, fresh=fresh),
        view.list(Kind.GRANT, namespace, fresh=fresh) if pod else _nothing(),
        view.get(Kind.POD, namespace, pod, fresh=fresh) if pod else _none(),
    )
    class_name = "default" if owner is None else str(owner["spec"].get("className", "default"))
    agent_class = await view.get(Kind.CLASS, "", class_name, fresh=fresh)
    return Authority(found, owner, revision, agent_class, grants, sandbox)


async def _nothing() -> tuple[Object, ...]:
    return ()


async def _none() -> None:
    return None
