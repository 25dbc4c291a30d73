"""JSON text of an untrusted writer, read so that no two parsers can disagree on it (RFC 8259, RFC 8785, R16)."""

import json
import math
from collections.abc import Iterator
from typing import Any, TypeGuard

from agentrun.core.errors import AgentrunError

MAX_DEPTH = 60
MAX_SAFE_INTEGER = 2**53 - 1
_BLANK = b" \t\r\n"


class InvalidJson(AgentrunError):
    """The text is no JSON object that has one reading; `path` is a JSON Pointer (RFC 6901), "" for the whole."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path or 'the whole'}: {why}")
        self.path = path
        self.why = why


class _Pairs(list[tuple[str, Any]]):
    """An object before its names are known to be unique."""


def parse_object(raw: bytes) -> dict[str, Any]:
    """The object that the text stands for. Raises InvalidJson naming the first place that does not hold.

    Refused beside broken JSON: text that is not UTF-8, a name given twice, integers beyond 2^53 - 1, lone surrogates,
    NaN and Infinity, more than 60 levels.
    """
    text = _text(raw)
    try:
        value = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_no_constant)
    except RecursionError:
        raise InvalidJson("", f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise InvalidJson("", f"not JSON: {error}") from None
    if not isinstance(value, _Pairs):
        raise InvalidJson("", "must be a JSON object, like {}")
    checked = _checked(value, "", 0)
    if not _is_object(checked):
        raise InvalidJson("", "must be a JSON object, like {}")
    return checked


def trimmed(raw: bytes) -> bytes:
    """The text without the blanks around it: how it stands inside another JSON text."""
    return raw.strip(_BLANK)


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _text(raw: bytes) -> str:
    if not trimmed(raw):
        raise InvalidJson("", "empty: send {} where there is nothing to say")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidJson("", f"not UTF-8 at byte {error.start}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _checked(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidJson(path, f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, _Pairs):
        return dict(_members(value, path, depth))
    if _is_array(value):
        return [_checked(item, f"{path}/{index}", depth + 1) for index, item in enumerate(value)]
    _check_scalar(value, path)
    return value


def _members(pairs: _Pairs, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for name, value in pairs:
        inner = f"{path}/{_pointer(name)}"
        _check_scalar(name, inner)
        if name in seen:
            raise InvalidJson(inner, "the name is given twice")
        seen.add(name)
        yield name, _checked(value, inner, depth + 1)


def _pointer(name: str) -> str:
    """One reference token of a JSON Pointer, printable whatever the name holds."""
    return name.replace("~", "~0").replace("/", "~1").encode("utf-8", "backslashreplace").decode("utf-8")[:200]


def _check_scalar(value: Any, path: str) -> None:
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidJson(path, f"a lone surrogate at character {error.start}: it is no text") from None
    if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
        raise InvalidJson(path, "an integer beyond 2^53 - 1: send it as a string")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidJson(path, "a number too large for a double")
