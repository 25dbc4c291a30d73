"""The seven questions as text (R1): every member is shown, nothing in it steers the terminal."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentrun.render.explain import QUESTIONS, explain_text
from agentrun.render.text import line, unsafe

ANSWER: dict[str, Any] = {
    "run": {"uid": "u1"},
    "identity": {"name": "fix", "requester": {"username": "jane"}, "model": "m1", "images": ["a@sha256:1"]},
    "state": {"state": "waiting_tool", "accepted": [], "unfinished": [
        {"step": "t1c0", "kind": "tool", "attempt": 1, "deadlineAt": 1_790_000_000_123_456, "nextAttemptAt": 0},
    ]},
    "authority": [{"step": "t1c0", "actor": "jane", "scope": "run", "approval": None, "verdict": "Allowed"}],
    "effects": {"committed": [{"step": "t0c0", "receipt": {"digest": "sha256:2"}}], "refused": [], "unknown": []},
    "control": {"pause": {"now": True, "where": "after t1c0"}, "fork": {"now": False, "where": "not in this version"}},
    "limits": {"toolCalls": {"granted": 40, "left": 39}, "modelCalls": {"granted": 20, "left": 18}},
    "recovery": [],
}  # fmt: skip


def test_the_seven_questions_stand_in_order_each_with_its_answer() -> None:
    text = explain_text(ANSWER)
    places = [text.index(f"{number}. {title}") for number, (_, title) in enumerate(QUESTIONS, 1)]
    assert len(places) == 7
    assert places == sorted(places)
    for shown in ("jane", "waiting_tool", "2026-09-21T14:13:20.123Z", "sha256:2", "after t1c0", "not in this version"):
        assert shown in text
    assert "accepted: none" in text


def test_objects_with_the_same_members_become_a_table() -> None:
    limits = explain_text(ANSWER).split("6. ")[1].split("7. ")[0].splitlines()
    assert limits[1].split() == ["granted", "left"]
    assert limits[2].split() == ["toolCalls", "40", "39"]


def test_rows_too_wide_for_a_terminal_are_listed_one_by_one() -> None:
    actions = [
        {"step": "t1c0", "key": "k" * 71, "fingerprint": "f" * 71},
        {"step": "t1c1", "key": "", "dispatchedAt": 1},
    ]
    text = explain_text({"authority": {"actions": actions}})
    assert f"    - step: t1c0\n      key: {'k' * 71}\n      fingerprint: {'f' * 71}\n    - step: t1c1\n" in text


def test_a_question_without_an_answer_says_so_and_unknown_members_are_shown() -> None:
    text = explain_text({"identity": {"newMember": {"deep": [1, [2, {"x": "y"}]]}}})
    assert "newMember" in text
    assert "x: y" in text
    assert text.count("(no answer)") == 6


LEAVES = st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=()))
NAMES = st.text(max_size=5) | st.sampled_from(["recordedAt", "deadlineAt"])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))


@given(st.dictionaries(st.sampled_from([name for name, _ in QUESTIONS]), VALUES))
def test_whatever_stands_in_an_answer_is_shown_and_nothing_steers_the_terminal(answer: dict[str, Any]) -> None:
    text = explain_text(answer)
    assert not [char for char in text if unsafe(char) and char != "\n"]
    for leaf in strings(answer):
        assert line(leaf).rstrip(" ") in text


def strings(value: Any) -> list[str]:
    """Every string of a value, member names aside."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [found for item in inner for found in strings(item)]
