"""Provider Scripted: replies written in the template, for tests, demos and trying out policies without a model."""

import asyncio
from typing import Annotated, Any

import msgspec

from agentrun.api.naming import json_name
from agentrun.core.digest import canonical
from agentrun.core.errors import ErrorClass
from agentrun.core.events import Usage
from agentrun.models.errors import ModelError
from agentrun.models.port import Features, Finish, ModelReply, ModelRequest, Target, ToolCall

BYTES_PER_TOKEN = 4  # by definition of this provider, where a turn states no usage
Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`arguments` as an object, or as text: then exactly this text, broken JSON included."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: dict[str, Any] | str = {}


class ScriptedUsage(msgspec.Struct, frozen=True, rename=json_name, forbid_unknown_fields=True):
    """Tokens that the turn claims to have used."""

    input_tokens: Count = 0
    cached_input_tokens: Count = 0
    output_tokens: Count = 0
    reasoning_tokens: Count = 0


class Turn(msgspec.Struct, frozen=True, rename=json_name, forbid_unknown_fields=True):
    """One reply. `delay_seconds` passes before it is given."""

    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish_reason: Finish | None = None
    usage: ScriptedUsage | None = None
    delay_seconds: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 0


class _Script(msgspec.Struct, frozen=True):
    turns: tuple[Turn, ...] = ()


class Scripted:
    """The reply of a turn is the entry of that number; a turn is counted by the assistant messages before it."""

    name = "Scripted"
    version = "1"
    features = Features(
        tool_calls=True,
        structured_output=False,
        streaming=False,
        cancel=True,
        usage="Exact",
        continuation_ids=False,
        typed_errors=True,
    )

    async def complete(self, request: ModelRequest, target: Target) -> ModelReply:
        """The scripted reply. Raises ModelError (InvalidRequest) for a bad script or one that has ended."""
        turn = _turn(request, target)
        await asyncio.sleep(turn.delay_seconds)
        calls = tuple(ToolCall(call.name, _arguments(call.arguments)) for call in turn.tool_calls)
        finish = turn.finish_reason or (Finish.TOOL_CALLS if calls else Finish.STOP)
        return ModelReply(turn.text, calls, finish, _usage(turn, request, calls))


def _turn(request: ModelRequest, target: Target) -> Turn:
    try:
        turns = msgspec.convert(dict(target.parameters), _Script).turns
    except msgspec.ValidationError as error:
        message = f"template.modelParameters is no script: {error}"
        raise ModelError(ErrorClass.INVALID_REQUEST, message) from None
    number = sum(message.role == "assistant" for message in request.messages)
    if number >= len(turns):
        message = (
            f"template.modelParameters.turns has {len(turns)} entries and the run asks for reply {number + 1}: "
            "add an entry without toolCalls as the last reply"
        )
        raise ModelError(ErrorClass.INVALID_REQUEST, message)
    return turns[number]


def _arguments(value: dict[str, Any] | str) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else canonical(value)


def _usage(turn: Turn, request: ModelRequest, calls: tuple[ToolCall, ...]) -> Usage:
    if turn.usage is not None:
        return Usage(**msgspec.structs.asdict(turn.usage))
    sent = len(msgspec.json.encode((request.messages, request.tools)))
    made = len(turn.text.encode("utf-8", "surrogatepass")) + sum(len(call.arguments) + len(call.name) for call in calls)
    return Usage(input_tokens=-(-sent // BYTES_PER_TOKEN), output_tokens=-(-made // BYTES_PER_TOKEN))
