"""JSON and YAML output: the same data for a machine, harmless on a terminal (R17)."""

import json
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentrun.render.structured import json_text, yaml_text
from agentrun.render.text import unsafe

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_json_is_the_same_data_and_nothing_in_it_acts_on_a_terminal(value: Any) -> None:
    for indent in (None, 2):
        text = json_text(value, indent=indent)
        assert json.loads(text) == value
        assert not [char for char in text if unsafe(char) and char != "\n"]


@given(VALUES)
def test_json_of_one_line_is_one_line(value: Any) -> None:
    assert "\n" not in json_text(value, indent=None)


@given(st.dictionaries(TEXTS, TEXTS, max_size=4))
def test_yaml_is_the_same_data_and_nothing_in_it_acts_on_a_terminal(value: dict[str, str]) -> None:
    text = yaml_text(value)
    assert yaml.safe_load(text) == value
    assert not [char for char in text if unsafe(char) and char != "\n"]


def test_readable_letters_stay_readable() -> None:
    assert "日本" in json_text({"a": "日本"})
    assert "日本" in yaml_text({"a": "日本"})
    assert json_text("\u202e") == '"\\u202e"'
    assert json_text("\U000e0041") == '"\\udb40\\udc41"'
