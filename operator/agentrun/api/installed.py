"""Compares an installed CRD with the one this version needs (C67): an old CRD prunes new fields in silence."""

from collections.abc import Iterator, Mapping
from typing import Any

from agentrun.api.crd import custom_resource_definition
from agentrun.api.kinds import KINDS, Kind
from agentrun.api.markers import RULES

JsonSchema = Mapping[str, Any]
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


def missing_fields(kind: Kind, installed: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What the installed CRD of `kind` lacks, as readable paths in a fixed order.

    A path is a field (`spec.stop.mode`), an enum value (`spec.stop.mode=Kill`), a rule
    (`spec.stop (rule: stop goes one way: …)`), or the whole CRD when `installed` is None. Fields that only the
    installed CRD has (a newer chart) are no matter.
    """
    if installed is None:
        return (f"CustomResourceDefinition {kind.crd_name}",)
    versions = [v for v in installed["spec"]["versions"] if v["name"] == kind.version and v.get("served")]
    if not versions:
        return (f"CustomResourceDefinition {kind.crd_name} version {kind.version}",)
    needed = custom_resource_definition(kind)["spec"]["versions"][0]
    found: JsonSchema = versions[0].get("schema", {}).get("openAPIV3Schema", {})
    lacks = [] if "status" in versions[0].get("subresources", {}) else ["subresource status"]
    return (*lacks, *_missing(needed["schema"]["openAPIV3Schema"], found, ""))


def all_missing(installed: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """`missing_fields` of every kind; `installed` maps CRD names to objects. Complete kinds are left out."""
    found = {kind.crd_name: missing_fields(kind, installed.get(kind.crd_name)) for kind in KINDS}
    return {name: lacks for name, lacks in found.items() if lacks}


def _missing(needed: JsonSchema, installed: JsonSchema, path: str) -> Iterator[str]:
    yield from (f"{path}={value}" for value in needed.get("enum", ()) if value not in installed.get("enum", ()))
    known_rules = {entry["rule"] for entry in installed.get(RULES, ())}
    yield from (
        f"{path or 'object'} (rule: {entry['message']})"
        for entry in needed.get(RULES, ())
        if entry["rule"] not in known_rules
    )
    if needed.get(_PRESERVE) and not installed.get(_PRESERVE):
        yield f"{path} (free JSON)"
    for name, child in needed.get("properties", {}).items():
        below = f"{path}.{name}".removeprefix(".")
        if name in installed.get("properties", {}):
            yield from _missing(child, installed["properties"][name], below)
        else:
            yield below
    for key, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if key in needed:
            yield from _missing(needed[key], installed.get(key) or {}, path + suffix)
