"""Names that a provider does not accept are renamed and come back (C40)."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agentrun.models.names import ToolNames
from agentrun.models.port import NameLimits

LIMITS = NameLimits(64, "a-zA-Z0-9_-")


@given(st.lists(st.text(min_size=1, max_size=90), max_size=12))
def test_every_name_is_accepted_and_comes_back_C40(names: list[str]) -> None:
    tool_names = ToolNames(names, LIMITS)
    wire = [tool_names.wire(name) for name in names]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in wire)
    assert [tool_names.plain(name) for name in wire] == names
    assert len(set(wire)) == len(set(names))


def test_good_names_stay_as_they_are_C40() -> None:
    assert ToolNames(["run", "read-file_2"], LIMITS).wire("read-file_2") == "read-file_2"


def test_same_name_on_two_servers_is_told_apart_C40() -> None:
    tool_names = ToolNames(["github.search", "github/search", "github_search"], LIMITS)
    assert len({tool_names.wire(name) for name in ("github.search", "github/search", "github_search")}) == 3


def test_a_good_name_is_not_taken_by_a_renamed_one_C40() -> None:
    renamed = ToolNames(["a.b"], LIMITS).wire("a.b")
    both = ToolNames(["a.b", renamed], LIMITS)
    assert both.wire(renamed) == renamed
    assert both.plain(both.wire("a.b")) == "a.b"


def test_long_names_that_share_their_beginning_stay_two_C40() -> None:
    first, second = "x" * 64 + "1", "x" * 64 + "2"
    tool_names = ToolNames([first, second], LIMITS)
    assert tool_names.wire(first) != tool_names.wire(second)


def test_a_name_that_was_never_offered_comes_back_unchanged_C45() -> None:
    assert ToolNames(["run"], LIMITS).plain("made_up") == "made_up"
