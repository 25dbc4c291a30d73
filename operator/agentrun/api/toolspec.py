"""ToolSpec: a tool as a typed effect boundary (R15). It stands inside a template, so it has no API default."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from agentrun.api.common import (
    URL,
    ApiModel,
    Argv,
    Bytes,
    JsonObject,
    LabelName,
    Seconds,
    Text4K,
    ToolName,
    Word,
    set_members,
)
from agentrun.api.markers import map_list, rule, set_list
from agentrun.api.subjects import ApprovalRule

DEFAULT_TOOL_TIMEOUT_SECONDS = 120
DEFAULT_MAX_OUTPUT_BYTES = 65_536


class Executor(StrEnum):
    """Who carries a call out; the member of the same name holds the details."""

    BUILTIN = "Builtin"
    SANDBOX = "Sandbox"
    HTTP = "HTTP"
    MCP = "MCP"
    SUB_RUN = "SubRun"


class Builtin(StrEnum):
    """Tools that the sandbox's tool server brings along."""

    RUN = "Run"
    READ = "Read"
    WRITE = "Write"
    EDIT = "Edit"
    LIST = "List"
    SEARCH = "Search"


class SideEffectClass(StrEnum):
    """What a call can change."""

    READ_ONLY = "ReadOnly"
    WORKSPACE = "Workspace"
    EXTERNAL = "External"


class IdempotencyMode(StrEnum):
    """Who makes a repetition harmless: nobody, the operation's nature, or the receiver by key."""

    NONE = "None"
    NATURAL = "Natural"
    KEY = "Key"


class RetryClass(StrEnum):
    """What happens when a call's outcome is unknown."""

    REPEAT = "Repeat"
    SAME_KEY = "SameKey"
    RECONCILE = "Reconcile"


class HttpMethod(StrEnum):
    """HTTP method (RFC 9110), in CamelCase like every enum of this API."""

    GET = "Get"
    HEAD = "Head"
    POST = "Post"
    PUT = "Put"
    PATCH = "Patch"
    DELETE = "Delete"


_READING_BUILTINS = (Builtin.READ, Builtin.LIST, Builtin.SEARCH)
_MEMBERS = {
    Executor.BUILTIN: "builtin",
    Executor.SANDBOX: "sandbox",
    Executor.HTTP: "http",
    Executor.MCP: "mcp",
    Executor.SUB_RUN: "sub_run",
}
HeaderName = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
HeaderValue = Annotated[str, StringConstraints(max_length=1024, pattern=r"^[^\x00-\x08\x0a-\x1f\x7f]*$")]


class SandboxMember(ApiModel):
    """A command of the sandbox image; the arguments come as JSON on standard input."""

    argv: Argv = Field(description="Program and arguments, never a shell string.")


class HttpHeader(ApiModel):
    """One fixed request header. Credentials never stand here: they come from a grant."""

    name: HeaderName = Field(description="Name of the header.")
    value: HeaderValue = Field(description="Value of the header.")


class HttpMember(ApiModel):
    """A request that the broker sends."""

    method: HttpMethod = Field(description="HTTP method.")
    url: URL = Field(description="URL; `{name}` is replaced by the argument of that name, percent-encoded.")
    headers: Annotated[tuple[HttpHeader, ...], Field(max_length=32), map_list("name")] = Field(
        default=(), description="Fixed headers."
    )


class McpMember(ApiModel):
    """A tool of an MCP server that the template names."""

    server: LabelName = Field(description="Name in `mcpServers`.")
    tool: Annotated[str, StringConstraints(min_length=1, max_length=128)] = Field(description="The server's tool.")


class SubRunMember(ApiModel):
    """A run of another definition of the namespace."""

    definition_name: LabelName = Field(description="Name in `subagents`.")


class Idempotency(ApiModel):
    """How a repeated call is made harmless."""

    mode: IdempotencyMode = Field(description="None, Natural (of its nature) or Key (the receiver compares a key).")
    header: HeaderName | None = Field(default=None, description="Header for the key; absent: Idempotency-Key.")

    cel_rules = (
        rule("self.mode == 'Key' || !has(self.header)", "header belongs to mode Key: remove it, or set mode: Key"),
    )

    @model_validator(mode="after")
    def _header_fits_mode(self) -> Self:
        if self.header and self.mode is not IdempotencyMode.KEY:
            raise ValueError("header belongs to mode Key: remove it, or set mode: Key")
        return self


class ToolRef(ApiModel):
    """Another tool of the same template."""

    tool: ToolName = Field(description="Name of the tool.")


_ONE_MEMBER = (
    "executor {executor} needs its own member and no other: set {member} and remove the rest of "
    "builtin, sandbox, http, mcp, subRun"
)
_REPEAT = "retryClass Repeat needs sideEffectClass ReadOnly or idempotency.mode Natural"
_SAME_KEY = "retryClass SameKey needs idempotency.mode Key"
_OUTPUT_SCHEMA = "outputSchema is fixed for executor Builtin: remove it"
_BUILTIN_EFFECT = "builtin Read, List and Search are sideEffectClass ReadOnly; Run, Write and Edit are Workspace"
_DESCRIBED = "description is required unless executor is Builtin: say what the tool does"


class ToolSpec(ApiModel):
    """One tool: who carries it out, what it may change, how it is retried, approved and bounded."""

    name: ToolName = Field(description="Name shown to the model.")
    description: Text4K | None = Field(
        default=None, description="What the tool does, for the model; for Builtin absent means the built-in text."
    )
    executor: Executor = Field(description="Who carries the call out; set the member of the same name.")
    builtin: Builtin | None = Field(default=None, description="Which built-in tool.")
    sandbox: SandboxMember | None = Field(default=None, description="Command of the sandbox image.")
    http: HttpMember | None = Field(default=None, description="HTTP request.")
    mcp: McpMember | None = Field(default=None, description="Tool of an MCP server.")
    sub_run: SubRunMember | None = Field(default=None, description="Run of another definition.")
    input_schema: JsonObject | None = Field(
        default=None, description="JSON Schema (2020-12) of the arguments; for Builtin it narrows the built-in one."
    )
    output_schema: JsonObject | None = Field(
        default=None, description="JSON Schema (2020-12) of the result; refused for Builtin."
    )
    side_effect_class: SideEffectClass = Field(description="What a call can change.")
    idempotency: Idempotency | None = Field(default=None, description="Absent: mode None.")
    retry_class: RetryClass = Field(description="What happens when the outcome is unknown.")
    approval_rule: ApprovalRule | None = Field(
        default=None, description="When a person must decide; the strictest of this, class and grants holds."
    )
    auth_scopes: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=256)], ...], Field(max_length=16), set_list()
    ] = Field(default=(), description="Scopes that the credential must have.")
    sandbox_profile: Word | None = Field(default=None, description="Sandbox profile that the call needs.")
    timeout_seconds: Annotated[Seconds, Field(le=86_400)] | None = Field(
        default=None, description="Seconds for one attempt; absent: 120."
    )
    resource_key: Annotated[str, StringConstraints(min_length=1, max_length=512)] | None = Field(
        default=None, description="Resource on which calls exclude each other; `{name}` is an argument."
    )
    status_query: ToolRef | None = Field(default=None, description="Read-only tool that tells what became of a call.")
    compensate: ToolRef | None = Field(default=None, description="Tool that undoes a call.")
    max_output_bytes: Annotated[Bytes, Field(le=67_108_864)] | None = Field(
        default=None, description="Most bytes of output kept; absent: 65536."
    )

    cel_rules = (
        rule(
            "[has(self.builtin), has(self.sandbox), has(self.http), has(self.mcp), has(self.subRun)]"
            ".filter(set, set).size() == 1 && (self.executor == 'Builtin' ? has(self.builtin) "
            ": self.executor == 'Sandbox' ? has(self.sandbox) : self.executor == 'HTTP' ? has(self.http) "
            ": self.executor == 'MCP' ? has(self.mcp) : has(self.subRun))",
            "set exactly the member that executor names: builtin, sandbox, http, mcp or subRun",
        ),
        rule(
            "self.retryClass != 'Repeat' || self.sideEffectClass == 'ReadOnly' "
            "|| (has(self.idempotency) && self.idempotency.mode == 'Natural')",
            _REPEAT,
        ),
        rule(
            "self.retryClass != 'SameKey' || (has(self.idempotency) && self.idempotency.mode == 'Key')",
            _SAME_KEY,
        ),
        rule("self.executor != 'Builtin' || !has(self.outputSchema)", _OUTPUT_SCHEMA),
        rule(
            "!has(self.builtin) || (self.builtin in ['Read', 'List', 'Search'] "
            "? self.sideEffectClass == 'ReadOnly' : self.sideEffectClass == 'Workspace')",
            _BUILTIN_EFFECT,
        ),
        rule("self.executor == 'Builtin' || has(self.description)", _DESCRIBED),
    )

    @model_validator(mode="after")
    def _contract_is_consistent(self) -> Self:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> list[str]:
        member = _MEMBERS[self.executor]
        mode = self.idempotency.mode if self.idempotency else IdempotencyMode.NONE
        repeatable = self.side_effect_class is SideEffectClass.READ_ONLY or mode is IdempotencyMode.NATURAL
        only = set_members(self, tuple(_MEMBERS.values())) == set_members(self, (member,)) != []
        is_builtin = self.executor is Executor.BUILTIN
        checks = (
            (only, _ONE_MEMBER.format(executor=self.executor, member="subRun" if member == "sub_run" else member)),
            (self.retry_class is not RetryClass.REPEAT or repeatable, _REPEAT),
            (self.retry_class is not RetryClass.SAME_KEY or mode is IdempotencyMode.KEY, _SAME_KEY),
            (not is_builtin or self.output_schema is None, _OUTPUT_SCHEMA),
            (self.builtin is None or self._fits_builtin(self.builtin), _BUILTIN_EFFECT),
            (is_builtin or bool(self.description), _DESCRIBED),
        )
        return [message for holds, message in checks if not holds]

    def _fits_builtin(self, builtin: Builtin) -> bool:
        wanted = SideEffectClass.READ_ONLY if builtin in _READING_BUILTINS else SideEffectClass.WORKSPACE
        return self.side_effect_class is wanted
