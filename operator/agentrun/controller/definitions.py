"""Freezing templates: each becomes an immutable ControllerRevision named by its digest (R7)."""

import datetime as dt
from typing import Any

import rfc8785

from agentrun.api.conditions import AcceptedReason, ReconcilingReason, StalledReason
from agentrun.api.conditions import ConditionType as Type
from agentrun.api.digests import template_digest, tool_digest
from agentrun.controller.conditions import Mark, render
from agentrun.controller.names import DEFINITION_LABEL, MANAGED, MANAGER, TEMPLATE_DIGEST, revision_name
from agentrun.core.errors import AgentrunError
from agentrun.kube import AlreadyExists, KubeClient
from agentrun.kube.reading import member, members
from agentrun.kube.resources import DEFINITIONS, REVISIONS

Object = dict[str, Any]


class InvalidTemplate(AgentrunError):
    """The template has no RFC 8785 form, so no digest: numbers beyond 2^53. The message says which kind of value."""


def build_revision(definition: Object, digest: str) -> Object:
    """The frozen template; owned by its definition, so it goes with it."""
    meta = definition["metadata"]
    owner = {"apiVersion": "agentrun.dev/v1alpha1", "kind": "AgentDefinition", "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": revision_name(meta["name"], digest),
            "namespace": meta["namespace"],
            "labels": {DEFINITION_LABEL: meta["name"], **MANAGED},
            "annotations": {TEMPLATE_DIGEST: digest},
            "ownerReferences": [owner],
        },
        "revision": int(meta.get("generation", 1)),
        "data": definition["spec"]["template"],
    }


async def ensure_revision(kube: KubeClient, definition: Object) -> str:
    """Make the revision if it is not there; returns the template's digest. Raises InvalidTemplate."""
    try:
        digest = template_digest(definition["spec"]["template"])
    except rfc8785.CanonicalizationError as error:
        name = definition["metadata"]["name"]
        raise InvalidTemplate(f"the template of AgentDefinition {name} has no digest: {error}") from None
    try:
        await kube.create(REVISIONS, build_revision(definition, digest), definition["metadata"]["namespace"])
    except AlreadyExists:
        return digest
    return digest


def definition_status(definition: Object, digest: str, class_found: bool, now: str) -> Object:  # noqa: FBT001
    """What the operator found; compared with what is there before it is written."""
    meta = definition["metadata"]
    class_name = definition["spec"].get("className", "default")
    accepted = (
        Mark(Type.ACCEPTED, True, AcceptedReason.ACCEPTED)
        if class_found
        else Mark(Type.ACCEPTED, False, AcceptedReason.CLASS_NOT_FOUND, f"there is no AgentClass {class_name}")
    )
    tools = [
        {"name": tool["name"], "digest": tool_digest(tool)} for tool in members(definition["spec"]["template"], "tools")
    ]
    return {
        "latestRevision": {"name": revision_name(meta["name"], digest), "digest": digest},
        "tools": tools,
        **_accepted_or_not(definition, accepted, now),
    }


def invalid_status(definition: Object, message: str, now: str) -> Object:
    """Of a definition whose template cannot be frozen: said for good, not tried for ever (C47)."""
    mark = Mark(Type.ACCEPTED, False, AcceptedReason.INVALID_TEMPLATE, message)
    return {"tools": [], **_accepted_or_not(definition, mark, now)}


def _accepted_or_not(definition: Object, accepted: Mark, now: str) -> Object:
    generation = int(definition["metadata"].get("generation", 1))
    stalled = StalledReason.NOT_STALLED if accepted.status else StalledReason.BLOCKED
    marks = [
        accepted,
        Mark(Type.RECONCILING, False, ReconcilingReason.RECONCILED),
        Mark(Type.STALLED, not accepted.status, stalled),
    ]
    before = members(member(definition, "status"), "conditions")
    return {"observedGeneration": generation, "conditions": render(marks, generation, before, now)}


async def reconcile_definition(kube: KubeClient, definition: Object, *, class_found: bool) -> None:
    """Freeze the template and say so."""
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        status = definition_status(definition, await ensure_revision(kube, definition), class_found, now)
    except InvalidTemplate as error:
        status = invalid_status(definition, str(error), now)
    before = member(definition, "status")
    if all(before.get(key) == value for key, value in status.items()):
        return
    meta = definition["metadata"]
    body = {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "AgentDefinition",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
        "status": status,
    }
    await kube.apply(DEFINITIONS, body, manager=MANAGER, subresource="status")
