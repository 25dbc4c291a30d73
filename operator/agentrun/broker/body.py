"""What a dispatch's body says: the bytes that are signed are the bytes that were judged (C17)."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentrun.api.toolspec import Executor, ToolSpec
from agentrun.broker.refusal import Refused
from agentrun.broker.wire import SignCall
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import ErrorClass
from agentrun.tools import builtin
from agentrun.tools.jsontext import InvalidJson, parse_object


class _Body(msgspec.Struct):
    """The members that decide what is done (docs/reference/sandbox-protocol.md); bytes of `arguments` as they stand."""

    arguments: msgspec.Raw = msgspec.Raw(b"")
    argv: list[str] | None = None


def arguments_of(call: SignCall, tool: ToolSpec) -> dict[str, Any]:
    """The arguments inside the body of a tool's dispatch.

    Raises Refused: InvalidArguments for what cannot be judged, InvalidRequest where operation, command or digest are
    other ones than the tool's: a signature for one tool must not start another.
    """
    body = _body(call, f"the body of {tool.name}")
    op, argv = _carried_out(tool)
    if call.op != op:
        raise Refused(ErrorClass.INVALID_REQUEST, f"tool {tool.name} is carried out by op {op}, not {call.op}")
    _same_command(body, argv, f"tool {tool.name}")
    raw = bytes(body.arguments)
    if sha256_digest(raw) != call.arguments_digest:
        raise Refused(ErrorClass.INVALID_REQUEST, "argumentsDigest is not the digest of the body's member arguments")
    return _object(raw, f"the arguments of {tool.name}")


def check_verification(call: SignCall, argv: Sequence[str] | None) -> None:
    """Whether the body runs the template's verification and nothing else. Raises Refused."""
    if argv is None:
        raise Refused(ErrorClass.DENIED, "the template has no verification")
    _same_command(_body(call, "the body of verify"), argv, "the template's verification")


def _carried_out(tool: ToolSpec) -> tuple[str, Sequence[str] | None]:
    """Operation of a tool, and the command that its body must name."""
    if tool.builtin is not None:
        return builtin.OPS[tool.builtin], None
    if tool.executor is Executor.SANDBOX and tool.sandbox is not None:
        return "tool", tool.sandbox.argv
    message = f"tool {tool.name} has executor {tool.executor}, which this version does not carry out"
    raise Refused(ErrorClass.DENIED, message)


def _same_command(body: _Body, argv: Sequence[str] | None, what: str) -> None:
    if (None if argv is None else list(argv)) != body.argv:
        raise Refused(ErrorClass.INVALID_REQUEST, f"the body's member argv is not that of {what}")


def _body(call: SignCall, what: str) -> _Body:
    _object(call.body, what)  # one reading only: no name twice, or the sandbox could read another value
    try:
        return msgspec.json.decode(call.body, type=_Body)
    except msgspec.MsgspecError as error:
        raise Refused(ErrorClass.INVALID_REQUEST, f"{what} cannot be read: {error}") from None


def _object(raw: bytes, what: str) -> dict[str, Any]:
    try:
        return parse_object(raw)
    except InvalidJson as error:
        raise Refused(ErrorClass.INVALID_ARGUMENTS, f"{what} cannot be judged: {error}") from None
