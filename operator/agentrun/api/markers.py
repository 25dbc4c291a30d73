"""Markers that carry what a Kubernetes structural schema knows and a Python type does not.

They stand in `Annotated[...]` beside pydantic's own constraints, and only add keys to the generated JSON schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

JsonSchema = dict[str, Any]
RULES = "x-kubernetes-validations"


@dataclass(frozen=True, eq=False)  # hashed by identity: typing puts annotations into sets
class Extra:
    """Keys added to the JSON schema of the annotated type (rules are appended, never replaced)."""

    keys: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __get_pydantic_json_schema__(self, schema_: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        """Called by pydantic; the constraints below this marker are in place already."""
        schema: JsonSchema = dict(handler(schema_))
        for key, value in self.keys.items():
            schema[key] = [*schema.get(key, []), *value] if key == RULES else value
        return schema


@dataclass(frozen=True)
class Utf8Limit:
    """Text of at most `limit` bytes of UTF-8; `maxLength` alone would count characters."""

    limit: int

    def check(self, value: str) -> str:
        """Raises: ValueError where the text is longer."""
        if len(value.encode("utf-8", "surrogatepass")) > self.limit:
            raise ValueError(f"must be at most {self.limit} bytes of UTF-8: shorten it")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Called by pydantic."""
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        """Called by pydantic."""
        limit = rule(f"size(bytes(self)) <= {self.limit}", f"must be at most {self.limit} bytes of UTF-8: shorten it")
        return {**handler(schema), "maxLength": self.limit, RULES: [limit]}


def atomic_list() -> Extra:
    """A list that is replaced as a whole."""
    return Extra({"x-kubernetes-list-type": "atomic"})


def set_list() -> Extra:
    """A list of unique scalars, merged by value."""
    return Extra({"x-kubernetes-list-type": "set"})


def map_list(*keys: str) -> Extra:
    """A list of objects, unique and merged by `keys` (JSON names)."""
    return Extra({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


def rule(expression: str, message: str, *, field_path: str | None = None) -> dict[str, str]:
    """One CEL rule as the CRD states it; `message` names the fix."""
    entry = {"rule": expression, "message": message}
    return entry | {"fieldPath": field_path} if field_path else entry


def rules(*entries: dict[str, str]) -> Extra:
    """CEL rules of the annotated value."""
    return Extra({RULES: list(entries)})


def free_json(schema_type: str | None = "object") -> Extra:
    """JSON that the schema leaves open: kept as sent, owned by one field manager as a whole."""
    opened: JsonSchema = {"x-kubernetes-preserve-unknown-fields": True}
    if schema_type:
        opened |= {"type": schema_type, "x-kubernetes-map-type": "atomic"}
    return Extra(opened)


def api_default(value: object) -> Extra:
    """A default that the API server itself fills in, so that admission sees it."""
    return Extra({"x-agentrun-default": value})
