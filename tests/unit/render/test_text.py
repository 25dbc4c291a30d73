"""Untrusted text on a terminal: nothing acts on it, nothing hides, and what is printable stays as it is (C50, R17)."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrun.render.table import table
from agentrun.render.text import block, line, shortened, width

ANY = st.text(st.characters(exclude_categories=()))
NASTY = st.text(st.sampled_from("\x1b[2J\r\n\t\x00\x7f\x9b\u202e\u2066\u200b\u200d\ufeff\u2028\ud800\U000e0041ab界"))
TEXTS = ANY | NASTY
HARMLESS_BEYOND_PRINTABLE = {"Zs"}


def acts_on_a_terminal(char: str) -> bool:
    """Controls, format characters (bidi, zero width), separators of lines, half of a pair, what has no meaning yet."""
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(TEXTS)
def test_no_control_bidi_or_zero_width_character_survives_in_a_line(text: str) -> None:
    assert not [char for char in line(text) if acts_on_a_terminal(char)]


@given(TEXTS)
def test_of_a_block_only_line_feeds_and_tabs_survive(text: str) -> None:
    shown = block(text)
    assert {char for char in shown if acts_on_a_terminal(char)} <= {"\n", "\t"}
    assert shown.count("\n") == text.count("\n")


@given(TEXTS)
def test_no_control_byte_survives_the_way_to_the_terminal(text: str) -> None:
    sent = line(text).encode("utf-8")
    assert not [byte for byte in sent if byte < 0x20 or byte == 0x7F]
    assert not [one for one in line(text) if 0x80 <= ord(one) < 0xA0], "C1 controls act as escape sequences"


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters="\u115f\u1160\u3164\uffa0")))
def test_printable_text_is_unchanged(text: str) -> None:
    assert line(text) == text
    assert block(text) == text


@given(TEXTS)
def test_making_safe_twice_changes_nothing_more(text: str) -> None:
    assert line(line(text)) == line(text)


@given(TEXTS)
def test_nothing_is_dropped_every_unsafe_character_is_shown_by_its_code(text: str) -> None:
    shown = line(text)
    assert len(shown) >= len(text)
    for char in set(text):
        if acts_on_a_terminal(char) and char not in "\n\r\t":
            assert f"{ord(char):02x}" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("rm -rf /\rls", r"rm -rf /\rls"),
        ("\x9b2J", r"\x9b2J"),
        ("user\u202egpj.exe", r"user\u202egpj.exe"),
        ("pass\u200bword", r"pass\u200bword"),
        ("\U000e0041", r"\U000e0041"),
        ("a\nb", r"a\nb"),
        ("o\u034fk \u3164 \ufe0f x\U000e0101", r"o\u034fk \u3164 \ufe0f x\U000e0101"),
        ("⚠\ufe0f done", "⚠\ufe0f done"),
        ("⚠\ufe0f\ufe0f", "⚠\ufe0f\\ufe0f"),
        ("\ud83d", r"\ud83d"),
    ],
)
def test_what_steers_or_hides_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert line(text) == shown


def test_the_dangerous_tail_of_a_long_text_is_announced_not_hidden_C50() -> None:
    shown = shortened("x" * 3000 + "\r\x1b[K rm -rf", 200)
    assert shown.endswith("characters)")
    assert "+2" in shown
    assert shortened("short", 200) == "short"


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=5))
def test_a_cell_cannot_forge_a_row_or_shift_the_next_column(rows: list[tuple[str, str]]) -> None:
    lines = table(["NAME", "STATE"], rows).split("\n")
    assert len(lines) == 1 + len(rows)
    starts = {width(row[: len(row) - len(line(last))]) for row, (_, last) in zip(lines[1:], rows, strict=True)
              if line(last).strip(" ") and line(last) == line(last).rstrip(" ")}  # fmt: skip
    assert len(starts) <= 1


def test_wide_characters_take_two_columns_and_marks_none() -> None:
    assert width("日本") == 4
    assert width("e\u0301") == 1
