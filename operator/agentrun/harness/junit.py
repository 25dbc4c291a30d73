"""A JUnit XML report, written by untrusted code: no document type, no entities, bounded (R24)."""

from typing import Any
from xml.parsers import expat

import msgspec

from agentrun.core.errors import AgentrunError

MAX_REPORT_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64
MAX_NAMED = 20
_OUTCOMES = ("failure", "error", "skipped")


class BadReport(AgentrunError):
    """The report cannot be read; the message says why."""


class TestCounts(msgspec.Struct, frozen=True):
    """Test cases counted one by one; `claimed` is what the suites' own attributes say of failures and errors."""

    __test__ = False  # not a test class, whatever the collector thinks of its name

    total: int = 0
    failed: int = 0
    skipped: int = 0
    claimed: int = 0
    names: tuple[str, ...] = ()  # of failed ones, at most 20

    @property
    def passed(self) -> int:
        """Executed and green."""
        return self.total - self.failed - self.skipped

    @property
    def all_green(self) -> bool:
        """At least one test was executed and none failed, by count and by the suites' own word."""
        return self.passed > 0 and self.failed == 0 and self.claimed == 0

    def told(self) -> str:
        """For people, one line."""
        names = f": {', '.join(self.names)}" if self.names else ""
        return f"{self.passed} passed, {max(self.failed, self.claimed)} failed, {self.skipped} skipped{names}"


class _Counter:
    def __init__(self) -> None:
        self._path: list[str] = []
        self._case = ""
        self._outcome = ""
        self.total = self.failed = self.skipped = self.claimed = 0
        self.names: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._path) >= MAX_DEPTH:
            raise BadReport(f"elements nested deeper than {MAX_DEPTH}")
        if not self._path and name not in ("testsuite", "testsuites"):
            raise BadReport(f"the root element is {name[:64]!r}, not testsuite or testsuites")
        if name == "testcase":
            self._case = f"{attributes.get('classname', '')}::{attributes.get('name', '')}"[:200]
            self._outcome = ""
        elif name in _OUTCOMES and self._path and self._path[-1] == "testcase":
            self._outcome = name if self._outcome in ("", "skipped") else self._outcome
        elif name in ("testsuite", "testsuites"):
            self.claimed += sum(_number(attributes.get(key, "0")) for key in ("failures", "errors"))
        self._path.append(name)

    def end(self, name: str) -> None:
        self._path.pop()
        if name != "testcase":
            return
        self.total += 1
        if self._outcome == "skipped":
            self.skipped += 1
        elif self._outcome:
            self.failed += 1
            if len(self.names) < MAX_NAMED:
                self.names.append(self._case)


def _number(text: str) -> int:
    """A count as written; what is no count counts as a failure nobody explained."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 1


def _refuse_doctype(*_args: Any) -> None:
    raise BadReport("it has a document type or entities, which no test report needs")


def parse(data: bytes) -> TestCounts:
    """The counts of a report. Raises BadReport."""
    if len(data) > MAX_REPORT_BYTES:
        raise BadReport(f"it has {len(data)} bytes, the limit is {MAX_REPORT_BYTES}")
    counter = _Counter()
    parser = expat.ParserCreate(namespace_separator=None)
    parser.StartElementHandler = counter.start
    parser.EndElementHandler = counter.end
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.EntityDeclHandler = _refuse_doctype
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError) as error:
        raise BadReport(f"it is not XML: {error}") from None
    return TestCounts(counter.total, counter.failed, counter.skipped, counter.claimed, tuple(counter.names))
