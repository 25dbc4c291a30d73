"""Walks the generated schemas."""

from collections.abc import Iterator
from typing import Any

from agentrun.api.crd import open_api_schema
from agentrun.api.kinds import KINDS

Schema = dict[str, Any]


def nodes() -> list[tuple[str, Schema]]:
    """Every schema node below spec and status, with its path (`AgentRun.spec.steering[].id`)."""
    found: list[tuple[str, Schema]] = []
    for kind in KINDS:
        schema = open_api_schema(kind)
        for part in ("spec", "status"):
            found += _walk(schema["properties"][part], f"{kind.kind}.{part}")
    return found


def _walk(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from _walk(child, f"{path}.{name}")
    for key, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            yield from _walk(schema[key], path + suffix)
