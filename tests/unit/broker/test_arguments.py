"""Conditions on arguments, judged on the bytes that will be sent (R16, C17)."""

import json
from typing import Any

import pytest

from agentrun.api.toolgrant import ArgumentMatch
from agentrun.broker.arguments import parse_object, unmet
from agentrun.broker.refusal import Refused
from agentrun.core.errors import ErrorClass


def holds(condition: dict[str, Any], arguments: dict[str, Any]) -> bool:
    return unmet((ArgumentMatch.model_validate(condition),), arguments) is None


@pytest.mark.parametrize(
    ("condition", "good", "bad"),
    [
        ({"equals": "x"}, ["x"], ["X", "", None, ["x"]]),
        ({"equals": 1}, [1, 1.0], [True, "1", 2, None]),
        ({"equals": {"a": [1, 2]}}, [{"a": [1, 2]}], [{"a": [2, 1]}, {"a": [1, 2], "b": 0}]),
        ({"in": ["a", 7]}, ["a", 7], ["b", "7", ["a", 7], False]),
        ({"prefix": "src/"}, ["src/", "src/a.py", "src/..a"], ["SRC/a", "/src/a", 5, None, "src"]),
        ({"range": {"min": 1, "max": 3}}, [1, 2, 3], [0, 4, 2.0, "2", True, None]),
        ({"range": {"min": 0}}, [0, 10**30], [-1]),
        ({"range": {"max": 0}}, [0, -(10**30)], [1]),
    ],
)
def test_conditions_hold_only_for_what_they_name_R16(
    condition: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    condition = {"path": "/v", **condition}
    assert [value for value in good if not holds(condition, {"v": value})] == []
    assert [value for value in bad if holds(condition, {"v": value})] == []
    assert not holds(condition, {})


@pytest.mark.parametrize("value", ["src/../.env", "src/..", "src/a/..\\..\\x", "src/a/../../etc"])
def test_a_prefix_cannot_be_left_through_its_parent_R16(value: str) -> None:
    assert not holds({"path": "/v", "prefix": "src/"}, {"v": value})


def test_pointers_reach_into_objects_and_lists_RFC6901() -> None:
    arguments = {"a/b": {"~": ["x", {"k": 1}]}, "": 2}
    assert holds({"path": "/a~1b/~0/1/k", "equals": 1}, arguments)
    assert not holds({"path": "/a~1b/~0/01/k", "equals": 1}, arguments)
    assert not holds({"path": "/a~1b/~0/2", "equals": 1}, arguments)
    assert not holds({"path": "/a~1b/~0/-1", "equals": "x"}, arguments)
    assert holds({"path": "/", "equals": 2}, arguments)


def test_all_conditions_must_hold_and_the_first_that_fails_is_named() -> None:
    conditions = tuple(
        ArgumentMatch.model_validate({"path": path, "equals": value}) for path, value in (("/a", 1), ("/b", 2))
    )
    assert unmet(conditions, {"a": 1, "b": 2}) is None
    assert unmet(conditions, {"a": 1, "b": 3}) == "/b must equal 2"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"path": "a", "path": "b"}', "given twice"),
        (b'{"a": {"x": 1, "x": 2}}', "given twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b"[1]", "no JSON object"),
        (b'{"a": "\xff"}', "utf-8"),
        (b'{"a": 1} x', "Extra data"),
        (b"", "Expecting value"),
        (b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", "nested"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested"),
    ],
)
def test_what_two_parsers_could_read_differently_is_refused_C17(raw: bytes, why: str) -> None:
    with pytest.raises(Refused, match=why) as caught:
        parse_object(raw, "arguments")
    assert caught.value.error_class is ErrorClass.INVALID_ARGUMENTS


def test_what_is_unambiguous_is_read() -> None:
    value = {"a": [1, 2.5, None, True, {"b": "é\u0000"}]}
    assert parse_object(json.dumps(value).encode(), "arguments") == value
