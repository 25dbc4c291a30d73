"""Template: what a run is made of, hashed as a whole. No API default may stand here, or the digest would move."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from agentrun.api.common import (
    URL,
    ApiModel,
    Argv,
    Bytes,
    Digest,
    Flag,
    ImageName,
    JsonObject,
    LabelName,
    RelativePath,
    Seconds,
    Text4K,
    Word,
)
from agentrun.api.markers import atomic_list, map_list, rule, set_list
from agentrun.api.toolspec import Executor, ToolSpec

DEFAULT_VERIFICATION_TIMEOUT_SECONDS = 600
DEFAULT_WORKSPACE_BYTES = 1_073_741_824


class ContextStrategy(StrEnum):
    """What happens to old content when the context is full."""

    FULL = "Full"
    MASK = "Mask"
    COMPACT = "Compact"


class ReportFormat(StrEnum):
    """Format of a verification report."""

    JUNIT_XML = "JUnitXML"


class McpServer(ApiModel):
    """An MCP server that the broker calls."""

    name: LabelName = Field(description="Name that tools use.")
    url: URL = Field(description="Endpoint (streamable HTTP).")
    protocol_version: Annotated[str, StringConstraints(max_length=32, pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")] = Field(
        description="Pinned protocol version, like 2025-06-18."
    )
    digest: Digest | None = Field(default=None, description="Digest of the server's admitted catalogue.")


class SandboxResources(ApiModel):
    """Resources of the sandbox container, as requests and limits at once."""

    cpu_millis: Annotated[int, Field(strict=True, ge=10, le=1_024_000)] | None = Field(
        default=None, description="Thousandths of a CPU; absent: 1000."
    )
    memory_bytes: Bytes | None = Field(default=None, description="Memory in bytes; absent: 1 GiB.")
    ephemeral_storage_bytes: Bytes | None = Field(
        default=None, description="Local disk in bytes beside the workspace; absent: 1 GiB."
    )
    processes: Annotated[int, Field(strict=True, ge=16, le=65_536)] | None = Field(
        default=None, description="Most processes; absent: 256."
    )


class Sandbox(ApiModel):
    """Where tools run."""

    image: ImageName = Field(description="Any Linux image; the tool server is mounted into it.")
    workspace_bytes: Bytes | None = Field(default=None, description="Size of /workspace in bytes; absent: 1 GiB.")
    resources: SandboxResources | None = Field(default=None, description="Resources of the container.")
    warm: Flag | None = Field(default=None, description="Whether a Pod from the warm pool may serve.")


class Context(ApiModel):
    """What the model is shown."""

    budget_tokens: Annotated[int, Field(strict=True, ge=256, le=100_000_000)] | None = Field(
        default=None, description="Most tokens of a request; absent: the model's context."
    )
    strategy: ContextStrategy | None = Field(default=None, description="What happens when it is full; absent: Mask.")
    pinned: Annotated[tuple[Text4K, ...], Field(max_length=32), atomic_list()] = Field(
        default=(), description="Constraints that every request carries."
    )


class VerificationReport(ApiModel):
    """A file that the verification writes."""

    path: RelativePath = Field(description="Path in the workspace.")
    format: ReportFormat = Field(description="Format of the report.")


class Verification(ApiModel):
    """How success is judged: in a fresh Pod, by exit code and report, never by the model's word."""

    argv: Argv = Field(description="Program and arguments, run in the workspace.")
    report: VerificationReport | None = Field(default=None, description="Report that must be written and all green.")
    protected_paths: Annotated[tuple[RelativePath, ...], Field(max_length=64), set_list()] = Field(
        default=(), description="Paths restored from the input before the verification."
    )
    timeout_seconds: Annotated[Seconds, Field(le=86_400)] | None = Field(
        default=None, description="Seconds for the verification; absent: 600."
    )


class Template(ApiModel):
    """All that decides how a run behaves. Frozen by its digest (SHA-256 of its RFC 8785 form)."""

    instructions: Annotated[str, StringConstraints(max_length=65_536)] = Field(
        description="System instructions for the model."
    )
    model_name: Word = Field(description="Name of a model of the class.")
    model_parameters: JsonObject | None = Field(
        default=None, description="Parameters for the provider, like temperature; for Scripted its `turns`."
    )
    tools: Annotated[tuple[ToolSpec, ...], Field(max_length=64), map_list("name")] = Field(
        default=(), description="Tools that may be granted."
    )
    mcp_servers: Annotated[tuple[McpServer, ...], Field(max_length=16), map_list("name")] = Field(
        default=(), description="MCP servers that tools use."
    )
    sandbox: Sandbox | None = Field(default=None, description="Needed by Builtin and Sandbox tools and verification.")
    context: Context | None = Field(default=None, description="What the model is shown.")
    verification: Verification | None = Field(default=None, description="How success is judged.")
    subagents: Annotated[tuple[LabelName, ...], Field(max_length=32), set_list()] = Field(
        default=(), description="Definitions that SubRun tools may start."
    )

    cel_rules = (
        rule(
            "has(self.sandbox) || (!has(self.verification) && (!has(self.tools) "
            "|| !self.tools.exists(t, t.executor in ['Builtin', 'Sandbox'])))",
            "set sandbox.image: verification and tools with executor Builtin or Sandbox run there",
        ),
    )

    @model_validator(mode="after")
    def _names_resolve(self) -> Self:
        names = [tool.name for tool in self.tools]
        if len(names) != len(set(names)):
            raise ValueError("tools: names must be unique")
        inside = any(tool.executor in (Executor.BUILTIN, Executor.SANDBOX) for tool in self.tools)
        if self.sandbox is None and (inside or self.verification):
            raise ValueError("set sandbox.image: verification and tools with executor Builtin or Sandbox run there")
        return self
