"""The seven questions about a run (R1), as text of a terminal. Knows the members' meaning, not their full list.

What the read API adds later is shown by its own name: a reader misses nothing because a build is older.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from agentrun.render.moments import moment
from agentrun.render.table import table
from agentrun.render.text import line, width

QUESTIONS = (
    ("identity", "Identity: who asked for what"),
    ("state", "State: what is accepted, what is unfinished"),
    ("authority", "Authority: what allows the next or last effect"),
    ("effects", "Effects: committed, refused, repeated, unknown"),
    ("control", "Control: where each verb takes hold"),
    ("limits", "Limits: what is left"),
    ("recovery", "Recovery: what may be repeated, what must be checked"),
)
_STEP = "  "
_WIDEST = 120  # a table of longer rows would be wrapped by the terminal: its rows are listed one by one


def explain_text(answer: Mapping[str, Any]) -> str:
    """Every question with its answer; a question without one says so."""
    parts = [f"{number}. {title}\n{_member(answer.get(name))}" for number, (name, title) in enumerate(QUESTIONS, 1)]
    return "\n\n".join(parts)


def _member(value: Any) -> str:
    if value is None:
        return f"{_STEP}(no answer)"
    return "\n".join(f"{_STEP}{row}" for row in _lines(value)) or f"{_STEP}(nothing)"


def _lines(value: Any, name: str = "") -> list[str]:
    if _is_object(value) and value:
        return _mapping(value)
    if _is_list(value) and value:
        return _sequence(value, name)
    return [_flat(value, name)]


def _mapping(value: Mapping[str, Any]) -> list[str]:
    uniform = _rows_by_name(value)
    if uniform:
        return uniform
    shown: list[str] = []
    for key, item in value.items():
        label = line(key)
        if _is_flat(item):
            shown.append(f"{label}: {_flat(item, key)}")
        else:
            shown += [f"{label}:", *(_STEP + row for row in _lines(item, key))]
    return shown


def _rows_by_name(value: Mapping[str, Any]) -> list[str]:
    """Objects that all have the same members are a table: limits by name, verbs by name."""
    items = _flat_objects(list(value.values()))
    if len(items) < 2 or len({tuple(item) for item in items}) != 1:
        return []
    header = list(items[0])
    rows = [[key, *(_flat(item[name], name) for name in header)] for key, item in zip(value, items, strict=True)]
    return table(["", *map(line, header)], rows).split("\n")


def _sequence(value: Sequence[Any], name: str) -> list[str]:
    items = _flat_objects(value)
    if items:
        header = list(dict.fromkeys(key for item in items for key in item))
        rows = [[_flat(item.get(key), key) for key in header] for item in items]
        lines = table([line(key) for key in header], rows).split("\n")
        if all(width(row) <= _WIDEST for row in lines):
            return lines
    shown: list[str] = []
    for item in value:
        first, *rest = _lines(item, name)
        shown += [f"- {first}", *(_STEP + row for row in rest)]
    return shown


def _flat_objects(values: Sequence[Any]) -> list[Mapping[str, Any]]:
    """The values, if every one is an object whose members each fit on a line; else nothing."""
    found = [value for value in values if _is_object(value) and value and all(map(_is_flat, value.values()))]
    return found if len(found) == len(values) else []


def _is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_flat(value: Any) -> bool:
    """Fits on one line: a scalar, nothing, or a list of scalars."""
    if _is_object(value):
        return not value
    return not _is_list(value) or not any(_is_object(item) or _is_list(item) for item in value)


def _flat(value: Any, name: str) -> str:
    if _is_object(value):
        return "none"
    if _is_list(value):
        return ", ".join(_scalar(item, name) for item in value) or "none"
    return _scalar(value, name)


def _scalar(value: Any, name: str) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("At"):
        return moment(value) if value else "-"
    return line(value)
