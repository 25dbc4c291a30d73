"""What a dispatch's body says: the bytes that are signed are the bytes that were judged (C17)."""

from typing import Any

from agentrun.api.toolspec import ToolSpec
from agentrun.broker.wire import SignCall


def arguments_of(call: SignCall, tool: ToolSpec) -> dict[str, Any]:
    """The arguments inside the body. Raises Refused where they cannot be found or are other ones than announced."""
    raise NotImplementedError
