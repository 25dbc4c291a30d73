"""Canary secrets in no log line, broken by a newline or wrapped by a library (C31)."""

import io
import json
import logging

import pytest
import structlog
from tests.unit.broker.objects import Object

from agentrun.broker.credentials import Credentials
from agentrun.broker.redaction import LibraryLogs, Redactor, capture_others, json_logger
from agentrun.broker.refusal import Refused
from agentrun.core.errors import ErrorClass

KEY = "sk-CANARY-0123456789"
BROKEN = "sk-CANARY-part1\nsk-CANARY-part2"


@pytest.fixture
def redactor() -> Redactor:
    result = Redactor()
    result.hide(KEY)
    result.hide(BROKEN)
    return result


def test_canaries_leave_no_line_whatever_holds_them_C31(redactor: Redactor) -> None:
    out = io.StringIO()
    log = json_logger("broker", redactor, out)
    log.info(KEY, key=KEY, nested={"a": [KEY, {"b": BROKEN}]}, error=ValueError(f"Illegal header {BROKEN!r}"))
    log.info("headers", raw=f"Authorization: Bearer abcdefgh.{'x' * 40}", jwt="eyJhbGciOiJFZERTQSJ9.eyJhIjoxfQ.c2ln")
    try:
        int(BROKEN)
    except ValueError:
        log.exception("failed")
    text = out.getvalue()
    assert "CANARY" not in text
    assert "abcdefgh" not in text
    assert "eyJ" not in text
    assert [json.loads(line)["level"] for line in text.splitlines()] == ["info", "info", "error"]


def test_what_libraries_log_goes_through_the_same_redaction_C31(redactor: Redactor) -> None:
    out = io.StringIO()
    library = logging.getLogger("tests.library")
    handler = LibraryLogs(json_logger("broker", redactor, out))
    library.addHandler(handler)
    library.warning("Illegal header value %r", f"Bearer {BROKEN}".encode())
    library.removeHandler(handler)
    assert "CANARY" not in out.getvalue()
    assert json.loads(out.getvalue())["logger"] == "tests.library"


def test_what_other_parts_log_is_redacted_however_the_process_logs_C31(
    redactor: Redactor, capsys: pytest.CaptureFixture[str]
) -> None:
    out, text = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(text)
    before = structlog.get_config()["processors"]
    logging.getLogger().addHandler(handler)
    try:
        with capture_others(json_logger("broker", redactor, out), redactor):
            structlog.get_logger().warning("watch_failed", error=f"bad header {BROKEN}")
            try:
                int(BROKEN)
            except ValueError:
                logging.getLogger("tests.library").exception("header %s", KEY)
    finally:
        logging.getLogger().removeHandler(handler)
    assert structlog.get_config()["processors"] == before
    assert handler.filters == []
    printed = capsys.readouterr()
    said = printed.out + printed.err + text.getvalue()
    assert "watch_failed" in said
    assert "invalid literal" in said
    assert "CANARY" not in said


def test_ordinary_words_and_numbers_stay_readable(redactor: Redactor) -> None:
    redactor.hide("abc")
    out = io.StringIO()
    json_logger("broker", redactor, out).info("allowed", run="abc-1", fence=3, ok=True, none=None)
    line = json.loads(out.getvalue())
    assert (line["run"], line["fence"], line["ok"], line["none"]) == ("abc-1", 3, True, None)


def secret(**change: object) -> Object:
    return {"type": "agentrun.dev/credential", "data": {"apiKey": "c2stQ0FOQVJZLTAxMjM0NTY3ODk="}, **change}


@pytest.mark.parametrize(
    ("found", "error_class", "told"),
    [
        (None, ErrorClass.UNAUTHENTICATED, "no Secret large-key"),
        (secret(type="Opaque"), ErrorClass.DENIED, "must be of type agentrun.dev/credential"),
        (secret(data={}), ErrorClass.UNAUTHENTICATED, "no entry apiKey"),
        (secret(data={"apiKey": "/w=="}), ErrorClass.UNAUTHENTICATED, "no UTF-8 text"),
        (
            secret(data={**secret()["data"], "hosts": "YXBpLmV4YW1wbGUub3Jn"}),
            ErrorClass.DENIED,
            "models.example.com is not one of them",
        ),
    ],
)
async def test_a_credential_that_cannot_be_used_says_why_R17(
    found: Object | None, error_class: ErrorClass, told: str
) -> None:
    async def read(_name: str) -> Object | None:
        return found

    with pytest.raises(Refused, match=told) as caught:
        await Credentials(read, Redactor()).key_for("large-key", "https://models.example.com/v1")
    assert caught.value.error_class is error_class


async def test_a_key_is_hidden_from_logs_once_it_is_read_C31() -> None:
    async def read(_name: str) -> Object | None:
        return secret()

    redactor = Redactor()
    assert await Credentials(read, redactor).key_for("k", "https://models.example.com/v1") == KEY
    assert redactor.clean(f"x {KEY} y") == "x [redacted] y"
