"""Errors that carry whether a retry is safe (R12)."""

from enum import StrEnum


class Retry(StrEnum):
    """What may be done after an error."""

    NEVER = "Never"  # the same request fails the same way
    REPEAT = "Repeat"  # nothing happened outside, or repeating is harmless
    SAME_KEY = "SameKey"  # safe only under the same idempotency key
    RELOAD = "Reload"  # what was known is stale: load again, decide again


class ErrorClass(StrEnum):
    """Durable class of a failed call: decides retry, and is what a person and the model are told."""

    TRANSIENT = "Transient"  # connection refused, 5xx, time-out before anything was sent
    RATE_LIMITED = "RateLimited"  # costs time, not attempts (C42)
    INVALID_REQUEST = "InvalidRequest"
    UNAUTHENTICATED = "Unauthenticated"
    NOT_FOUND = "NotFound"
    NOT_GRANTED = "NotGranted"
    DENIED = "Denied"
    INVALID_ARGUMENTS = "InvalidArguments"
    INVALID_RESULT = "InvalidResult"
    TIMEOUT = "Timeout"
    OOM_KILLED = "OOMKilled"
    SANDBOX_REPLACED = "SandboxReplaced"
    SANDBOX_LOST = "SandboxLost"
    STALE_FENCE = "StaleFence"
    RUN_STOPPED = "RunStopped"
    RUN_NOT_FOUND = "RunNotFound"
    AUTHORITY_UNAVAILABLE = "AuthorityUnavailable"
    OUTCOME_UNKNOWN = "OutcomeUnknown"
    CANCELLED = "Cancelled"
    TOO_LARGE = "TooLarge"
    FAILED = "Failed"  # the tool ran and reported failure
    INTERNAL = "Internal"


class AgentrunError(Exception):
    """Root of every error of ours; `retry` says what is safe to do next."""

    retry: Retry = Retry.NEVER


class CorruptHistory(AgentrunError):
    """An event, checkpoint or blob is not what its hash says; names the position."""


class UnknownReducerVersion(AgentrunError):
    """The run was recorded under a reducer this build does not carry (C11): loud, never skipped."""
