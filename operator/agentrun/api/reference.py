"""Writes docs/reference/api.md from the generated schemas: `python -m agentrun.api.reference OUT`."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentrun.api.conditions import REASONS
from agentrun.api.crd import open_api_schema
from agentrun.api.kinds import KINDS, Kind
from agentrun.api.markers import RULES

JsonSchema = Mapping[str, Any]
_INTRO = """# API reference

Generated from the models in `operator/agentrun/api`; do not edit.

Group `agentrun.dev`, version `v1alpha1`. Amounts are integers with their unit in the name. `spec` is written by people
and pipelines, `status` by the operator alone. A field marked * is required.
"""


def reference() -> str:
    """The whole page as Markdown."""
    parts = [_INTRO, *(_kind(kind) for kind in KINDS), _reasons()]
    return "\n".join(parts)


def _kind(kind: Kind) -> str:
    schema = open_api_schema(kind)
    short = ", ".join(f"`{name}`" for name in kind.short_names)
    head = f"## {kind.kind}\n\n{schema['description']} {kind.scope}; short name {short}.\n"
    rows = ["| field | type | meaning |", "|---|---|---|"]
    for part in ("spec", "status"):
        rows += [_row(*row) for row in _fields(schema["properties"][part], part)]
    rules = [f"- `{path}`: {message}" for path, message in _rules(schema, "")]
    return "\n".join([head, *rows, "", "Rules:", "", *rules, ""])


def _fields(schema: JsonSchema, path: str) -> Iterator[tuple[str, JsonSchema, bool]]:
    required = schema.get("required", ())
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}", child, name in required
        for key, suffix in (("", ""), ("items", "[]"), ("additionalProperties", "{}")):
            below = child.get(key, {}) if key else child
            yield from _fields(below, f"{path}.{name}{suffix}")


def _row(path: str, schema: JsonSchema, required: bool) -> str:  # noqa: FBT001
    text = str(schema.get("description", "")).replace("|", "\\|")
    if "enum" in schema:
        text += " One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + "."
    if "default" in schema:
        text += f" Default `{schema['default']}`."
    return f"| `{path}`{' *' if required else ''} | {_type(schema)} | {text} |"


def _type(schema: JsonSchema) -> str:
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema['items'])}, at most {schema['maxItems']}"
        case "object" if "additionalProperties" in schema:
            return f"map of {_type(schema['additionalProperties'])}, at most {schema['maxProperties']}"
        case "string" if "maxLength" in schema:
            return f"string, at most {schema['maxLength']}"
        case "integer":
            return f"integer, {schema['minimum']} to {schema['maximum']}"
        case None:
            return "any JSON"
        case other:
            return str(other)


def _rules(schema: JsonSchema, path: str) -> Iterator[tuple[str, str]]:
    yield from ((path or "object", entry["message"]) for entry in schema.get(RULES, ()))
    for name, child in schema.get("properties", {}).items():
        yield from _rules(child, f"{path}.{name}".removeprefix("."))
    if "items" in schema:
        yield from _rules(schema["items"], path + "[]")


def _reasons() -> str:
    lines = ["## Conditions and their reasons", "", "| type | meaning | reasons |", "|---|---|---|"]
    for condition, reasons in REASONS.items():
        meaning = (reasons.__doc__ or "").split(": ", 1)[-1]
        lines.append(f"| {condition} | {meaning} | {', '.join(reason.value for reason in reasons)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
