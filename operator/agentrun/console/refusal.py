"""What the read API answers instead of content."""

from agentrun.core.errors import AgentrunError


class Refusal(AgentrunError):
    """A request that gets no content: HTTP status, a class for programs and a message for people."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


def bad_request(message: str) -> Refusal:
    """The request itself is wrong; the message names the parameter and what it may be."""
    return Refusal(400, "Invalid", message)


def unknown(message: str) -> Refusal:
    """Nothing of that name for this caller, whether or not it exists for others."""
    return Refusal(404, "NotFound", message)
