"""Errors of the SDK and the connection as error classes (R12). Nothing of them may carry the key (C31)."""

import email.utils
import re
import time
from collections.abc import Mapping

import httpx2
import openai

from agentrun.core.errors import ErrorClass
from agentrun.core.events import Usage
from agentrun.models.credentials import redact
from agentrun.models.errors import ModelError
from agentrun.models.port import Target
from agentrun.outbound.policy import DialRefused

MAX_RETRY_AFTER = 86_400.0
_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")


def failed(error: Exception, target: Target, spent: Usage | None) -> ModelError:
    """The error as ours. `spent` is the bound of what a reply that had begun cost."""
    if isinstance(error, ModelError):
        return error
    if isinstance(error, openai.APIStatusError):
        return _refused(error, target)
    if isinstance(error, openai.APIConnectionError | httpx2.HTTPError | httpx2.StreamError):
        return _disconnected(error.__cause__ or error, spent)
    if isinstance(error, openai.APIError):
        said = f"the provider reported an error in its stream: {error.message}"
        return ModelError(ErrorClass.TRANSIENT, redact(said, target.api_key), usage=spent)
    message = f"the endpoint does not speak the Chat Completions protocol: {type(error).__name__}"
    return ModelError(ErrorClass.INVALID_RESULT, message, usage=spent)


def cut(spent: Usage) -> ModelError:
    """A stream that ended without a finish reason."""
    return ModelError(ErrorClass.TRANSIENT, "the model's reply was cut before its end", usage=spent)


def _disconnected(cause: BaseException, spent: Usage | None) -> ModelError:
    """Only our own dialler's words are shown: a library's may repeat a header."""
    if isinstance(cause, DialRefused):
        return ModelError(ErrorClass.DENIED, str(cause))
    message = f"the connection to the model's endpoint failed: {type(cause).__name__}"
    return ModelError(ErrorClass.TRANSIENT, message, usage=spent)


def _refused(error: openai.APIStatusError, target: Target) -> ModelError:
    status = error.status_code
    said = redact(f"the provider answered {status}: {error.message}", target.api_key)
    return ModelError(_class(status), said, retry_after_seconds=retry_after(error.response.headers))


def _class(status: int) -> ErrorClass:
    if status in (401, 403):
        return ErrorClass.UNAUTHENTICATED
    if status == 429:
        return ErrorClass.RATE_LIMITED
    if status == 413:
        return ErrorClass.TOO_LARGE
    if status in (408, 409) or status >= 500:
        return ErrorClass.TRANSIENT
    return ErrorClass.INVALID_REQUEST


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of `Retry-After` (RFC 9110: seconds or a date), at most a day, None without a readable one."""
    value = headers.get("retry-after", "").strip()
    seconds = float(value) if _SECONDS.fullmatch(value) else _until(value)
    return None if seconds is None else min(max(0.0, seconds), MAX_RETRY_AFTER)


def _until(date: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return None
