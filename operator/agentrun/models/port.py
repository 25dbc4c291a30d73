"""The port `ModelAdapter`: one neutral request and reply, whatever the provider's wire format (R18)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

import httpx2
import msgspec

from agentrun.api.naming import json_name
from agentrun.core.events import Usage

# The client that may dial an endpoint, given its base URL: see `agentrun.outbound`.
HttpClient = Callable[[str], httpx2.AsyncClient]


class ToolCall(msgspec.Struct, frozen=True, rename=json_name, omit_defaults=True):
    """A call the model proposes. `arguments` are the model's own bytes (JSON text if the model kept its word).

    `id` is the project's call id in a request's history, and empty in a reply: a provider's id is never used.
    """

    name: str
    arguments: bytes
    id: str = ""


class Message(msgspec.Struct, frozen=True, rename=json_name, omit_defaults=True):
    """One message of the conversation. `call_id` (role tool) names the call that is answered."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


class ToolOffer(msgspec.Struct, frozen=True, rename=json_name):
    """A tool as the model is shown it; `input_schema` is JSON Schema (2020-12)."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ModelRequest(msgspec.Struct, frozen=True, rename=json_name):
    """What is asked of the model. `deadline` in microseconds UTC."""

    messages: tuple[Message, ...]
    tools: tuple[ToolOffer, ...]
    max_output_tokens: int
    deadline: int


class Finish(StrEnum):
    """Why the reply ended. A reply cut at the output cap (`Length`) completes and dispatches nothing (C39)."""

    STOP = "Stop"
    TOOL_CALLS = "ToolCalls"
    LENGTH = "Length"
    CONTENT_FILTER = "ContentFilter"


@dataclass(frozen=True)
class ModelReply:
    """A whole reply. Tokens of `usage` stand in disjoint buckets: see `agentrun.models.pricing`."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish: Finish
    usage: Usage


@dataclass(frozen=True)
class Target:
    """Where and how to ask: the provider's model id, its base URL, the key, free parameters of the template.

    The key is on no `repr`: nothing that prints a target can print it (C31).
    """

    model: str
    endpoint: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Features:
    """What an adapter does, as published and as its tests hold it to."""

    tool_calls: bool
    structured_output: bool
    streaming: bool  # whether the wire is read as a stream, so that a stall or a cut is noticed early
    cancel: bool  # whether cancelling the call ends the provider's request
    usage: Literal["Exact", "ExactOrEstimated"]
    continuation_ids: bool  # whether the provider keeps conversation state that a later request may name
    typed_errors: bool  # whether provider errors become ErrorClass with a safe retry


@dataclass(frozen=True)
class NameLimits:
    """What a provider accepts as a tool's name (C40)."""

    max_length: int
    allowed: str  # characters of a regular expression's class


class ModelAdapter(Protocol):
    """Calls one kind of endpoint."""

    name: str
    version: str
    features: Features

    async def complete(self, request: ModelRequest, target: Target) -> ModelReply:
        """Ask and wait for the whole reply; cancelling the task ends the provider's request.

        Raises: ModelError.
        """
        ...
