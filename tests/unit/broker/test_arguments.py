"""Conditions on arguments, judged on the bytes that will be sent (R16, C17)."""

from typing import Any

import pytest

from agentrun.api.toolgrant import ArgumentMatch
from agentrun.broker.arguments import unmet


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
