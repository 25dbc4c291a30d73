"""A neutral request in the words of Chat Completions."""

from collections.abc import Iterator
from typing import Any, assert_never

from agentrun.core.errors import ErrorClass
from agentrun.models.errors import ModelError
from agentrun.models.names import ToolNames
from agentrun.models.port import Message, ModelRequest, Target, ToolOffer

# What the adapter decides itself: a template may not change what is asked, of whom, or how it is counted.
RESERVED = frozenset({"messages", "model", "stream", "stream_options", "tools", "functions", "n"})
_CAPS = ("max_completion_tokens", "max_tokens")  # newer and older name of the same cap


def names(request: ModelRequest) -> Iterator[str]:
    """Every tool name that the request mentions."""
    yield from (tool.name for tool in request.tools)
    yield from (call.name for message in request.messages for call in message.tool_calls)


def body(request: ModelRequest, target: Target, tool_names: ToolNames) -> dict[str, Any]:
    """Arguments for the SDK's `create`. Raises ModelError naming a parameter that a template may not set."""
    parameters = dict(target.parameters)
    for name in sorted(RESERVED & parameters.keys()):
        message = f"template.modelParameters.{name} is decided by the adapter: remove it"
        raise ModelError(ErrorClass.INVALID_REQUEST, message)
    return {
        "model": target.model,
        "messages": [_message(message, tool_names) for message in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        "extra_body": {**parameters, **_cap(request, parameters)},
        **({"tools": [_tool(tool, tool_names) for tool in request.tools]} if request.tools else {}),
    }


def _cap(request: ModelRequest, parameters: dict[str, Any]) -> dict[str, int]:
    """The output cap, under the name that the template uses; a template may lower it, never raise it."""
    name = next((name for name in _CAPS if name in parameters), _CAPS[0])
    asked = parameters.get(name, request.max_output_tokens)
    if type(asked) is not int or asked < 1:
        message = f"template.modelParameters.{name} must be a whole number of at least 1"
        raise ModelError(ErrorClass.INVALID_REQUEST, message)
    return {name: min(asked, request.max_output_tokens)}


def _tool(tool: ToolOffer, tool_names: ToolNames) -> dict[str, Any]:
    function = {"name": tool_names.wire(tool.name), "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def _message(message: Message, tool_names: ToolNames) -> dict[str, Any]:
    match message.role:
        case "system" | "user":
            return {"role": message.role, "content": message.text}
        case "tool":
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        case "assistant":
            return _assistant(message, tool_names)
        case _:
            assert_never(message.role)


def _assistant(message: Message, tool_names: ToolNames) -> dict[str, Any]:
    """Arguments go back as the model wrote them; bytes that are no text are shown as replacement characters."""
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": tool_names.wire(call.name),
                "arguments": call.arguments.decode("utf-8", "replace"),
            },
        }
        for call in message.tool_calls
    ]
    if not calls:
        return {"role": "assistant", "content": message.text}
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}
