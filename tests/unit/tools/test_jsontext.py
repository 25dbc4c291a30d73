"""Arguments have one reading, or none: every refusal names the path (R16)."""

import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from agentrun.tools.jsontext import MAX_DEPTH, InvalidJson, parse_object

SAFE = 2**53 - 1


@pytest.mark.parametrize(
    ("raw", "path", "why"),
    [
        (b'{"a": [1, {"b": 9007199254740993}]}', "/a/1/b", "2^53"),
        (b'{"a": -9007199254740993}', "/a", "2^53"),
        (b'{"text": "\\ud800"}', "/text", "surrogate"),
        (b'{"x/~": "\\udc00"}', "/x~1~0", "surrogate"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "/b/c", "twice"),
        (b'{"a": 1e999}', "/a", "too large"),
        (b'{"a": NaN}', "", "NaN"),
        (b"", "", "empty"),
        (b"  \n", "", "empty"),
        (b"[1]", "", "object"),
        (b'{"a": 1} {', "", "not JSON"),
        (b'{"a": "\x00"}', "", "not JSON"),
        ("{}".encode("utf-16"), "", "UTF-8"),
        (b"[" * 100_000, "", "deeper"),
        (b'{"a":' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b"}", "/a" + "/0" * (MAX_DEPTH), "deeper"),
    ],
)
def test_a_text_with_two_readings_is_refused_at_its_path_R16(raw: bytes, path: str, why: str) -> None:
    with pytest.raises(InvalidJson, match=why.replace("^", r"\^")) as caught:
        parse_object(raw)
    assert caught.value.path == path


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-SAFE, SAFE) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), _values, max_size=5))
def test_what_is_accepted_is_what_another_parser_reads_and_has_a_canonical_form(value: dict[str, object]) -> None:
    raw = json.dumps(value).encode()
    assert parse_object(raw) == json.loads(raw)
    canonical = rfc8785.dumps(parse_object(raw))
    assert json.loads(canonical, parse_int=float) == json.loads(raw, parse_int=float)  # numbers are doubles there


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_never_worse_C64(raw: bytes) -> None:
    try:
        value = parse_object(raw)
    except InvalidJson:
        return
    rfc8785.dumps(value)
