"""Which grants let a tool of a run act (R16, design 4). Pure; judged from spec and stamps, never from status."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pydantic

from agentrun.api.common import Actor
from agentrun.api.digests import json_digest, tool_digest
from agentrun.api.subjects import Subject, SubjectKind
from agentrun.api.toolgrant import GrantedTool, ToolGrantSpec
from agentrun.api.toolspec import Executor, ToolSpec
from agentrun.broker.arguments import unmet
from agentrun.broker.authority import Object, is_going, uid_of
from agentrun.broker.refusal import Refused
from agentrun.broker.runs import LiveRun
from agentrun.core.errors import ErrorClass

MICRO = 1_000_000
_NEEDS_DIGEST = (Executor.HTTP, Executor.MCP)


@dataclass(frozen=True)
class Grant:
    """A ToolGrant of the run's namespace that names the tool."""

    name: str
    namespace: str
    uid: str
    spec: ToolGrantSpec
    spec_digest: str
    tool: GrantedTool


@dataclass(frozen=True)
class Wanted:
    """What somebody wants to do: a tool of a run's template, at a time (microseconds UTC)."""

    run: LiveRun
    tool: ToolSpec
    raw_tool: Mapping[str, Any]
    now: int


def matching(wanted: Wanted, objects: tuple[Object, ...], arguments: Mapping[str, Any]) -> tuple[Grant, ...]:
    """Every grant that holds, in the order of their UIDs.

    Raises Refused: NotGranted where no grant reaches this tool of this run, Denied where one does but its conditions
    on the arguments do not hold. Each names what would have to change.
    """
    reaching, why_not = _reaching(wanted, objects)
    if not reaching:
        detail = f" ({'; '.join(why_not[:4])})" if why_not else ""
        message = f"no ToolGrant of namespace {wanted.run.name.namespace} grants tool {wanted.tool.name} to runs of "
        raise Refused(ErrorClass.NOT_GRANTED, f"{message}AgentDefinition {wanted.run.definition}{detail}")
    failed = {grant.name: _arguments_fail(grant, dict(arguments)) for grant in reaching}
    holding = [grant for grant in reaching if failed[grant.name] is None]
    if not holding:
        told = "; ".join(f"ToolGrant {name}: {reason}" for name, reason in failed.items())
        raise Refused(ErrorClass.DENIED, f"the arguments of {wanted.tool.name} are not granted: {told}")
    return tuple(sorted(holding, key=lambda grant: grant.uid))


def _reaching(wanted: Wanted, objects: tuple[Object, ...]) -> tuple[list[Grant], list[str]]:
    """Grants that name the tool for this run, and why the others that name it do not reach it."""
    reaching: list[Grant] = []
    why_not: list[str] = []
    for obj in objects:
        grant = _read(obj, wanted)
        if isinstance(grant, str):
            why_not.append(grant)
        elif grant is not None and (reason := _out_of_reach(grant, wanted)):
            why_not.append(f"ToolGrant {grant.name} {reason}")
        elif grant is not None:
            reaching.append(grant)
    return reaching, why_not


def _read(obj: Object, wanted: Wanted) -> Grant | str | None:
    """The grant if it names definition and tool; a text if it is unreadable; None if it is about something else."""
    raw: Object = obj.get("spec") or {}
    if is_going(obj) or raw.get("definitionName") != wanted.run.definition:
        return None
    name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
    try:
        spec = ToolGrantSpec.model_validate(raw)
    except pydantic.ValidationError as error:
        return f"ToolGrant {name} is not readable by this version ({error.errors()[0]['msg']})"
    tool = next((tool for tool in spec.tools if tool.name == wanted.tool.name), None)
    return None if tool is None else Grant(name, namespace, uid_of(obj), spec, json_digest(raw), tool)


def _out_of_reach(grant: Grant, wanted: Wanted) -> str | None:
    spec, digest = grant.spec, tool_digest(wanted.raw_tool)
    if spec.expiration_time is not None and _micros(spec.expiration_time) <= wanted.now:
        return f"expired at {spec.expiration_time}"
    if spec.template_digests is not None and wanted.run.template_digest not in spec.template_digests:
        return f"does not name template {wanted.run.template_digest}"
    if spec.requesters is not None and not _names(spec.requesters, wanted.run.requester, grant.namespace):
        return f"does not name the requester {wanted.run.requester.username if wanted.run.requester else '(unknown)'}"
    if grant.tool.digest is None and wanted.tool.executor in _NEEDS_DIGEST:
        return f"must name the digest of {wanted.tool.name}, which is {digest}"
    if grant.tool.digest is not None and grant.tool.digest != digest:
        return f"names digest {grant.tool.digest}, but {wanted.tool.name} is {digest}"
    return None


def _micros(time: str) -> int:
    moment = datetime.fromisoformat(time).astimezone(UTC)
    return int(moment.timestamp() * MICRO)


def _names(subjects: tuple[Subject, ...], actor: Actor | None, namespace: str) -> bool:
    return actor is not None and any(_is(subject, actor, namespace) for subject in subjects)


def _is(subject: Subject, actor: Actor, namespace: str) -> bool:
    match subject.kind:
        case SubjectKind.USER:
            return actor.username == subject.name
        case SubjectKind.GROUP:
            return subject.name in (actor.groups or ())
        case SubjectKind.SERVICE_ACCOUNT:
            return actor.username == f"system:serviceaccount:{subject.namespace or namespace}:{subject.name}"


def _arguments_fail(grant: Grant, arguments: dict[str, Any]) -> str | None:
    if grant.tool.expression is not None:
        return "its CEL expression cannot be evaluated by this version: use `match`"
    return unmet(grant.tool.match, arguments)
