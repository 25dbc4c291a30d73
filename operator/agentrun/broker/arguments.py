"""Structured conditions on a call's arguments (R16). Pure; judged on the very bytes that will be sent."""

import json
from typing import Any, TypeGuard

import rfc8785

from agentrun.api.toolgrant import ArgumentMatch
from agentrun.core.digest import canonical

_MISSING = object()


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def unmet(conditions: tuple[ArgumentMatch, ...], arguments: dict[str, Any]) -> str | None:
    """The first condition that does not hold, in words, or None if all hold."""
    return next((_told(condition) for condition in conditions if not _holds(condition, arguments)), None)


def _holds(condition: ArgumentMatch, arguments: dict[str, Any]) -> bool:
    value = _at(arguments, condition.path)
    if value is _MISSING:
        return False
    if condition.prefix is not None:
        return _begins(value, condition.prefix)
    if condition.range is not None:
        low, high = condition.range.min, condition.range.max
        return type(value) is int and (low is None or value >= low) and (high is None or value <= high)
    if condition.in_ is not None:
        return any(_equal(value, item) for item in condition.in_)
    return _equal(value, condition.equals)


def _begins(value: Any, prefix: str) -> bool:
    """A value with a `..` segment begins somewhere else than it seems to: it meets no prefix."""
    return isinstance(value, str) and value.startswith(prefix) and ".." not in value.replace("\\", "/").split("/")


def _equal(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 and 1.0 are, 1 and true are not."""
    try:
        return canonical(one) == canonical(other)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        return False


def _at(value: Any, pointer: str) -> Any:
    """The value at a JSON Pointer (RFC 6901)."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if _is_object(value) and name in value:
            value = value[name]
        elif _is_array(value) and name.isdecimal() and str(int(name)) == name and int(name) < len(value):
            value = value[int(name)]
        else:
            return _MISSING
    return value


def _told(condition: ArgumentMatch) -> str:
    if condition.prefix is not None:
        return f"{condition.path} must be text that begins with {condition.prefix!r} and has no `..` segment"
    if condition.range is not None:
        low, high = condition.range.min, condition.range.max
        return f"{condition.path} must be an integer from {_open(low)} to {_open(high)}"
    if condition.in_ is not None:
        return f"{condition.path} must be one of {json.dumps(list(condition.in_))}"
    return f"{condition.path} must equal {json.dumps(condition.equals)}"


def _open(bound: int | None) -> str:
    return "any" if bound is None else str(bound)
