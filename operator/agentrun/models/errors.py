"""Errors of model calls, and which retry an error class allows (R12)."""

from agentrun.core.errors import AgentrunError, ErrorClass, Retry
from agentrun.core.events import Usage

_REPEATABLE = frozenset(
    {ErrorClass.TRANSIENT, ErrorClass.RATE_LIMITED, ErrorClass.TIMEOUT, ErrorClass.AUTHORITY_UNAVAILABLE}
)  # fmt: skip


def retry_of(error_class: ErrorClass) -> Retry:
    """What may be done after a request that changes nothing outside failed so."""
    return Retry.REPEAT if error_class in _REPEATABLE else Retry.NEVER


class ModelError(AgentrunError):
    """A model call without a usable reply. `usage` is what it cost nevertheless, an upper bound if estimated.

    The message never holds a credential nor a provider's raw header.
    """

    def __init__(
        self,
        error_class: ErrorClass,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.message = message
        self.retry = retry_of(error_class)
        self.retry_after_seconds = retry_after_seconds
        self.usage = usage
