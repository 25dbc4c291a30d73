"""The body of a tool's dispatch: exactly the bytes that are judged, signed and sent (C17)."""

import msgspec

from agentrun.core.digest import sha256_digest
from agentrun.core.errors import AgentrunError
from agentrun.tools import builtin
from agentrun.tools.catalogue import Tool
from agentrun.tools.jsontext import trimmed


class NoSandboxTool(AgentrunError):
    """The tool is not carried out in the sandbox."""


class SandboxRequest(msgspec.Struct, frozen=True):
    """Operation, body and the digest of the argument bytes that stand in it."""

    op: str
    body: bytes
    arguments_digest: str


def tool_request(tool: Tool, arguments: bytes, timeout_seconds: int, max_output_bytes: int) -> SandboxRequest:
    """`arguments` are the model's own bytes, found valid: they are put in as they are, never encoded anew.

    Raises NoSandboxTool.
    """
    raw = trimmed(arguments)
    members: dict[str, object] = {
        "arguments": msgspec.Raw(raw),
        "timeoutSeconds": timeout_seconds,
        "maxOutputBytes": max_output_bytes,
    }
    return SandboxRequest(_operation(tool, members), msgspec.json.encode(members), sha256_digest(raw))


def _operation(tool: Tool, members: dict[str, object]) -> str:
    if tool.spec.builtin is not None:
        return builtin.OPS[tool.spec.builtin]
    if tool.spec.sandbox is not None:
        members["argv"] = list(tool.spec.sandbox.argv)
        return "tool"
    raise NoSandboxTool(f"tool {tool.name} has executor {tool.spec.executor}, which this version does not carry out")
