"""Reading JSON objects of the API, where a member that is absent, null or empty means the same."""

from typing import Any

Object = dict[str, Any]


def member(parent: Object, name: str) -> Object:
    """The object `name` of `parent`; empty when absent or null."""
    found: Object | None = parent.get(name)
    return found or {}


def members(parent: Object, name: str) -> list[Object]:
    """The list of objects `name` of `parent`; empty when absent or null."""
    found: list[Object] | None = parent.get(name)
    return found or []
