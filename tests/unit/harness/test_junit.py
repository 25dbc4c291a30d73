"""A report is judged by its test cases, and by nothing the writer could make it say (R24)."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrun.harness.junit import BadReport, TestCounts, parse


def suite(cases: str, attributes: str = "") -> bytes:
    """A report of one suite."""
    return f"<?xml version='1.0'?><testsuites><testsuite {attributes}>{cases}</testsuite></testsuites>".encode()


GREEN = "<testcase classname='t' name='a'/>"
FAILED = "<testcase classname='t' name='b'><failure message='x'>why</failure></testcase>"
SKIPPED = "<testcase classname='t' name='c'><skipped/></testcase>"


@pytest.mark.parametrize(
    ("cases", "attributes", "green"),
    [
        (GREEN, "failures='0' errors='0'", True),
        (GREEN + SKIPPED, "", True),
        ("", "tests='5'", False),
        (SKIPPED, "", False),
        (GREEN + FAILED, "", False),
        (GREEN + FAILED, "failures='0'", False),
        (GREEN, "errors='1'", False),
        (GREEN, "failures='none'", False),
        (GREEN + "<testcase name='d'><skipped/><error/></testcase>", "", False),
    ],
)
def test_only_executed_and_green_tests_pass_R24(cases: str, attributes: str, *, green: bool) -> None:
    assert parse(suite(cases, attributes)).all_green is green


def test_failed_tests_are_named() -> None:
    counts = parse(suite(GREEN + FAILED + SKIPPED))
    assert counts == TestCounts(3, 1, 1, 0, ("t::b",))
    assert counts.told() == "1 passed, 1 failed, 1 skipped: t::b"


BOMB = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>
<testsuite><testcase name="&b;"/></testsuite>"""
EXTERNAL = b"""<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite><testcase/></testsuite>"""


@pytest.mark.parametrize("raw", [BOMB, EXTERNAL, b"", b"<testsuite>", b"<html/>", b"\xff\xfe<", b"<a>" * 100_000])
def test_a_document_type_an_entity_or_no_xml_is_refused_R24(raw: bytes) -> None:
    with pytest.raises(BadReport):
        parse(raw)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(BadReport, match="deeper"):
        parse(b"<testsuite>" * 100)


@given(st.binary(max_size=200))
def test_any_bytes_are_counts_or_refused_C64(raw: bytes) -> None:
    with contextlib.suppress(BadReport):
        parse(raw)
