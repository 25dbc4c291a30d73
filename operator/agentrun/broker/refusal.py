"""Refusals of the broker: each class is another answer to the caller, and three of them another to the model (C45)."""

from agentrun.broker.wire import ErrorAnswer, Refusal, UsageBuckets
from agentrun.core.errors import AgentrunError, ErrorClass, Retry
from agentrun.models.errors import ModelError, retry_of

_STATUS = {
    ErrorClass.INVALID_REQUEST: 400,
    ErrorClass.INVALID_ARGUMENTS: 400,
    ErrorClass.UNAUTHENTICATED: 401,
    ErrorClass.NOT_GRANTED: 403,
    ErrorClass.DENIED: 403,
    ErrorClass.NOT_FOUND: 404,
    ErrorClass.RUN_NOT_FOUND: 404,
    ErrorClass.SANDBOX_LOST: 409,
    ErrorClass.STALE_FENCE: 409,
    ErrorClass.RUN_STOPPED: 409,
    ErrorClass.TOO_LARGE: 413,
    ErrorClass.RATE_LIMITED: 429,
    ErrorClass.INTERNAL: 500,
    ErrorClass.INVALID_RESULT: 502,
    ErrorClass.TRANSIENT: 502,
    ErrorClass.AUTHORITY_UNAVAILABLE: 503,
    ErrorClass.TIMEOUT: 504,
}


class Refused(AgentrunError):
    """The broker says no; the message says why and what would change it."""

    def __init__(self, error_class: ErrorClass, message: str, retry: Retry | None = None) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.message = message
        self.retry = retry_of(error_class) if retry is None else retry


def status_of(error_class: ErrorClass) -> int:
    """HTTP status of an answer with this class."""
    return _STATUS.get(error_class, 500)


def answer_to(error: Refused | ModelError, cost_micro_usd: int | None = None) -> ErrorAnswer:
    """The body that tells it."""
    if isinstance(error, Refused):
        return ErrorAnswer(Refusal(error.error_class, error.message, error.retry))
    usage = None if error.usage is None else UsageBuckets.of(error.usage)
    return ErrorAnswer(
        Refusal(error.error_class, error.message, error.retry, error.retry_after_seconds, usage, cost_micro_usd)
    )
