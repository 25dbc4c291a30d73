"""Requests and answers of the broker's HTTPS API, shared by server and client (docs/decisions/0002-joints.md).

JSON, camelCase; `bytes` travel as base64; times are microseconds UTC, except JWS claims (seconds, RFC 7519).
"""

from typing import Literal, TypeVar

import msgspec

from agentrun.api.naming import json_name
from agentrun.core.errors import ErrorClass, Retry
from agentrun.core.events import Usage
from agentrun.models.port import Finish, ModelRequest, ToolCall

AUDIENCE = "agentrun-broker"
MODEL_PATH = "/v1/model"
SIGN_PATH = "/v1/sign"

UNGRANTED_OPS = ("put", "get", "verify", "kill", "ps")  # they carry no model's choice
STOPPING_OPS = ("kill", "ps")  # allowed for a run that is being stopped


class Wire(msgspec.Struct, frozen=True, rename=json_name, omit_defaults=True):
    """Root of what is sent."""


_Wire = TypeVar("_Wire", bound=Wire)


class RunName(Wire, frozen=True):
    """Which run: a name alone is never enough."""

    namespace: str
    name: str
    uid: str


class ModelCall(Wire, frozen=True):
    """`POST /v1/model`."""

    run: RunName
    fence: int
    step: str
    attempt: int
    template_digest: str
    request: ModelRequest


class SignCall(Wire, frozen=True):
    """`POST /v1/sign`. `tool` and `call` name what a model proposed; both are empty for the other operations.

    `body` holds exactly the bytes that will be sent to the sandbox. It may stay empty for put, get, kill and ps (then
    only `body_digest` is bound). `arguments_digest` covers the bytes of the body's member `arguments`.
    """

    run: RunName
    fence: int
    step: str
    attempt: int
    template_digest: str
    op: str
    pod_name: str
    pod_uid: str
    min_fence: int
    body_digest: str
    body: bytes = b""
    call: str = ""
    tool: str | None = None
    arguments_digest: str = ""


class Verdict(Wire, frozen=True):
    """What was decided, signed: `sig` is a compact JWS (EdDSA) over the claims of the same names."""

    decision: Literal["Allowed"]
    grant: str  # UID of the grant; empty where none is needed
    policy_digest: str
    sig: str


class UsageBuckets(Wire, frozen=True):
    """Tokens in disjoint buckets, as `core.events.Usage`."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False

    @classmethod
    def of(cls, usage: Usage) -> "UsageBuckets":
        """From the form that events hold."""
        return cls(**msgspec.structs.asdict(usage))

    def usage(self) -> Usage:
        """In the form that events hold."""
        return Usage(**msgspec.structs.asdict(self))


class Reply(Wire, frozen=True):
    """What the model said. `arguments` of calls are the model's bytes, never re-encoded."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()


class Adapter(Wire, frozen=True):
    """Who spoke with the provider."""

    name: str
    version: str


class ModelAnswer(Wire, frozen=True):
    """A whole reply with what it cost. `cost_micro_usd` is null if the class states no price."""

    message: Reply
    finish_reason: Finish
    usage: UsageBuckets
    cost_micro_usd: int | None
    adapter: Adapter
    verdict: Verdict


class SignAnswer(Wire, frozen=True):
    """`dispatch` goes into header `Agentrun-Dispatch`."""

    dispatch: str
    verdict: Verdict


class Refusal(Wire, frozen=True):
    """Why not, and what may be done next. `usage` and `cost_micro_usd`: what a failed model call cost anyway."""

    error_class: ErrorClass = msgspec.field(name="class")
    message: str
    retry: Retry
    retry_after_seconds: float | None = None
    usage: UsageBuckets | None = None
    cost_micro_usd: int | None = None


class ErrorAnswer(Wire, frozen=True):
    """Body of every answer with status 4xx or 5xx."""

    error: Refusal


def encode(value: Wire) -> bytes:
    """JSON bytes as sent."""
    return msgspec.json.encode(value)


def decode(raw: bytes, kind: type[_Wire]) -> _Wire:
    """A value of `kind`. Raises msgspec.ValidationError or msgspec.DecodeError naming the field."""
    return msgspec.json.decode(raw, type=kind)
