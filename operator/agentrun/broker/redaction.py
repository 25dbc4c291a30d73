"""Structured logs that hold no secret: what the process knows to be secret is taken out of every line (C31)."""

import contextlib
import logging
import re
import sys
from collections.abc import Generator, Mapping, MutableMapping, Sequence
from typing import Any, TextIO, TypeGuard

import structlog

REDACTED = "[redacted]"
MIN_LENGTH = 6  # a shorter value would redact ordinary words
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"',]+")
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.?[A-Za-z0-9_-]*")


class Redactor:
    """Values that may be shown nowhere. A value is also known by its lines: a broken key is printed in pieces."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()

    def hide(self, secret: str) -> None:
        """From now on this value leaves no log line."""
        pieces = {secret, secret.strip(), *secret.split()}
        self._secrets.update(piece for piece in pieces if len(piece) >= MIN_LENGTH)

    def clean(self, text: str) -> str:
        """The text without secrets, bearer credentials and JSON web tokens."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, REDACTED)
        return _JWT.sub(REDACTED, _BEARER.sub(rf"\1 {REDACTED}", text))

    def __call__(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        """As a structlog processor."""
        return {name: self._cleaned(value) for name, value in event.items()}

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.clean(value)
        if _is_mapping(value):
            return {name: self._cleaned(inner) for name, inner in value.items()}
        if _is_sequence(value):
            return [self._cleaned(inner) for inner in value]
        return value if value is None or isinstance(value, bool | int | float) else self.clean(repr(value))


def _is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def json_logger(name: str, redactor: Redactor, out: TextIO | None = None) -> Any:
    """A logger that writes one JSON object a line."""
    return structlog.wrap_logger(
        structlog.PrintLogger(out or sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redactor,
            structlog.processors.JSONRenderer(),
        ],
        component=name,
    )


class LibraryLogs(logging.Handler):
    """Sends what libraries log through the same redaction."""

    def __init__(self, logger: Any) -> None:
        super().__init__(logging.WARNING)
        self._logger = logger
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self._logger.warning(self.format(record), logger=record.name, severity=record.levelname)


class _Cleaning(logging.Filter):
    """Rewrites a record before a handler of somebody else writes it."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record, cleaned."""
        record.msg, record.args = self._redactor.clean(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = self._redactor.clean(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True


@contextlib.contextmanager
def capture_others(logger: Any, redactor: Redactor) -> Generator[None]:
    """While the block runs, whatever other parts and libraries log leaves this process redacted.

    How the process has set up its logging stays: the redaction is put before what writes the lines.
    """
    with contextlib.ExitStack() as stack:
        root = logging.getLogger()
        if root.handlers:
            cleaning = _Cleaning(redactor)
            for present in root.handlers:
                present.addFilter(cleaning)
                stack.callback(present.removeFilter, cleaning)
        else:
            handler = LibraryLogs(logger)
            root.addHandler(handler)
            stack.callback(root.removeHandler, handler)
        before: list[Any] = structlog.get_config()["processors"]
        structlog.configure(processors=[*before[:-1], structlog.processors.format_exc_info, redactor, before[-1]])
        stack.callback(structlog.configure, processors=before)
        yield
