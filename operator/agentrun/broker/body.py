"""What a dispatch's body says: the bytes that are signed are the bytes that were judged (C17)."""

from typing import Any

import msgspec

from agentrun.api.toolspec import ToolSpec
from agentrun.broker.arguments import parse_object
from agentrun.broker.refusal import Refused
from agentrun.broker.wire import SignCall
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import ErrorClass


class _Body(msgspec.Struct):
    """The member that holds the model's arguments, as the bytes that stand there."""

    arguments: msgspec.Raw


def arguments_of(call: SignCall, tool: ToolSpec) -> dict[str, Any]:
    """The arguments inside the body of a tool's dispatch.

    Raises Refused: InvalidArguments for what cannot be judged, InvalidRequest where the body holds no arguments or
    other ones than `arguments_digest` says.
    """
    parse_object(call.body, f"the body of {tool.name}")  # no name twice: else the sandbox could read another one
    try:
        raw = bytes(msgspec.json.decode(call.body, type=_Body).arguments)
    except msgspec.MsgspecError as error:
        raise Refused(ErrorClass.INVALID_REQUEST, f"the body of {tool.name} has no member arguments: {error}") from None
    if sha256_digest(raw) != call.arguments_digest:
        raise Refused(ErrorClass.INVALID_REQUEST, "argumentsDigest is not the digest of the body's arguments")
    return parse_object(raw, f"the arguments of {tool.name}")
