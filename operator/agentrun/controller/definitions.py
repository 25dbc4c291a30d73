"""Freezing templates: each becomes an immutable ControllerRevision named by its digest (R7)."""

import datetime as dt
from typing import Any

from agentrun.api.conditions import AcceptedReason, ReconcilingReason, StalledReason
from agentrun.api.conditions import ConditionType as Type
from agentrun.api.digests import template_digest, tool_digest
from agentrun.controller.conditions import Mark, render
from agentrun.controller.names import DEFINITION_LABEL, MANAGED, MANAGER, TEMPLATE_DIGEST, revision_name
from agentrun.kube import AlreadyExists, KubeClient
from agentrun.kube.reading import member, members
from agentrun.kube.resources import DEFINITIONS, REVISIONS

Object = dict[str, Any]


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
    """Make the revision if it is not there; returns the template's digest."""
    digest = template_digest(definition["spec"]["template"])
    try:
        await kube.create(REVISIONS, build_revision(definition, digest), definition["metadata"]["namespace"])
    except AlreadyExists:
        return digest
    return digest


def definition_status(definition: Object, digest: str, class_found: bool, now: str) -> Object:  # noqa: FBT001
    """What the operator found; compared with what is there before it is written."""
    meta, before = definition["metadata"], member(definition, "status")
    class_name = definition["spec"].get("className", "default")
    marks = (
        [Mark(Type.ACCEPTED, True, AcceptedReason.ACCEPTED)]
        if class_found
        else [Mark(Type.ACCEPTED, False, AcceptedReason.CLASS_NOT_FOUND, f"there is no AgentClass {class_name}")]
    )
    marks += [
        Mark(Type.RECONCILING, False, ReconcilingReason.RECONCILED),
        Mark(Type.STALLED, not class_found, StalledReason.NOT_STALLED if class_found else StalledReason.BLOCKED),
    ]
    generation = int(meta.get("generation", 1))
    tools = [
        {"name": tool["name"], "digest": tool_digest(tool)} for tool in members(definition["spec"]["template"], "tools")
    ]
    return {
        "observedGeneration": generation,
        "latestRevision": {"name": revision_name(meta["name"], digest), "digest": digest},
        "tools": tools,
        "conditions": render(marks, generation, members(before, "conditions"), now),
    }


async def reconcile_definition(kube: KubeClient, definition: Object, *, class_found: bool) -> None:
    """Freeze the template and say so."""
    digest = await ensure_revision(kube, definition)
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = definition_status(definition, digest, class_found, now)
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
