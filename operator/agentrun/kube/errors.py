"""Answers of the API server that are no success, with what may be done next."""

from typing import Any

from agentrun.core.errors import AgentrunError, Retry


class KubeError(AgentrunError):
    """Any refusal; `status` is the HTTP status, `reason` the API's word, the message the API server's own."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class NotFound(KubeError):
    """404."""


class AlreadyExists(KubeError):
    """409 on create: something of this name is there, ours or not."""


class Conflict(KubeError):
    """409: the object moved, or another field manager owns a field."""

    retry = Retry.RELOAD


class Forbidden(KubeError):
    """401, 403: RBAC, quota or an admission policy; the message names which."""


class Invalid(KubeError):
    """400, 422."""


class Expired(KubeError):
    """410: the watch's position is too old; list again."""

    retry = Retry.RELOAD


class Unavailable(KubeError):
    """429, 5xx or no connection: the same request may be made again."""

    retry = Retry.REPEAT


def error_of(status: int, body: dict[str, Any]) -> KubeError:
    """The typed error of an answer; `body` is the API's Status object where there is one."""
    reason, message = str(body.get("reason", "")), str(body.get("message", ""))
    return _kind(status, reason)(status, reason or "Unknown", message or f"HTTP status {status}")


def _kind(status: int, reason: str) -> type[KubeError]:
    if status == 409:
        return AlreadyExists if reason == "AlreadyExists" else Conflict
    kinds: dict[int, type[KubeError]] = {
        400: Invalid,
        401: Forbidden,
        403: Forbidden,
        404: NotFound,
        410: Expired,
        422: Invalid,
        429: Unavailable,
    }
    return kinds.get(status, Unavailable if status >= 500 else KubeError)
