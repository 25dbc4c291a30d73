"""Turns pydantic's JSON schema into the structural OpenAPI v3 schema that a CustomResourceDefinition wants.

References are inlined, `null` members and Python defaults go, and what structural schemas forbid (titles,
`additionalProperties: false`, `propertyNames`) is dropped: the API server prunes unknown fields instead.
"""

import copy
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

JsonSchema = dict[str, Any]
_DROPPED = ("title", "default", "$defs", "propertyNames", "discriminator")
_ORDER = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "x-kubernetes-validations",
)


def structural_schema(model: type[BaseModel]) -> JsonSchema:
    """The structural schema of a model, keys in a fixed order."""
    # Rules are class attributes: callers may change what they get.
    schema = copy.deepcopy(model.model_json_schema(by_alias=True))
    return _convert(schema, schema.get("$defs", {}))


def _convert(node: JsonSchema, defs: Mapping[str, JsonSchema]) -> JsonSchema:
    flat = _inline(node, defs)
    result = {key: value for key, value in flat.items() if key not in _DROPPED}
    if "x-agentrun-default" in result:
        result["default"] = result.pop("x-agentrun-default")
    if "const" in result:
        result["enum"] = [result.pop("const")]
    if result.get("type") == "integer":
        result["format"] = "int64"
    _convert_children(result, defs)
    return {key: result[key] for key in (*_ORDER, *sorted(result)) if key in result}


def _convert_children(result: JsonSchema, defs: Mapping[str, JsonSchema]) -> None:
    if "properties" in result:
        result["properties"] = {name: _convert(child, defs) for name, child in result["properties"].items()}
    if "items" in result:
        result["items"] = _convert(result["items"], defs)
    values = result.get("additionalProperties")
    if isinstance(values, dict) and "x-kubernetes-preserve-unknown-fields" not in result:
        result["additionalProperties"] = _convert(cast("JsonSchema", values), defs)
    else:
        result.pop("additionalProperties", None)


def _inline(node: JsonSchema, defs: Mapping[str, JsonSchema]) -> JsonSchema:
    """Resolve `$ref` and `anyOf [X, null]`; keys beside them win, rules of both are kept."""
    members = [member for member in node.get("anyOf", ()) if member.get("type") != "null"]
    if len(members) == 1:
        inner = _inline(members[0], defs)
    elif "$ref" in node:
        inner = _inline(defs[node["$ref"].rsplit("/", 1)[-1]], defs)
    else:
        return node
    outer = {key: value for key, value in node.items() if key not in ("anyOf", "$ref")}
    return {**inner, **outer}
