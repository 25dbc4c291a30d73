"""Credentials as header values, and their removal from what other people wrote (C31)."""

import re

from agentrun.core.errors import ErrorClass
from agentrun.models.errors import ModelError

REDACTED = "[redacted]"
MAX_MESSAGE = 1000
_HEADER_VALUE = re.compile(r"[\x21-\x7e]+")


def header_safe(key: str) -> str:
    """The key without surrounding white space. Raises ModelError that does not show it if no header can hold it.

    HTTP libraries name the offending value in their own errors: such a key must not reach them.
    """
    trimmed = key.strip()
    if not _HEADER_VALUE.fullmatch(trimmed):
        message = (
            "the model's API key is empty or holds a line break or another character that no HTTP header may hold: "
            "write the Secret's value again, as one line"
        )
        raise ModelError(ErrorClass.UNAUTHENTICATED, message)
    return trimmed


def redact(text: str, *secrets: str | None) -> str:
    """Text of somebody else, cut to a bound, with every secret taken out."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, REDACTED)
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…"
