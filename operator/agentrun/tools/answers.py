"""What a sandbox says of a step, read as an attacker's word: typed, bounded, turned into an outcome (R16, gate 4)."""

import base64
import binascii
from collections.abc import Callable
from typing import Any

import msgspec

from agentrun.core.errors import AgentrunError, ErrorClass
from agentrun.tools.results import Outcome, plain
from agentrun.tools.sandbox import SandboxAnswer

HTTP_OK = 200
MAX_LISTED = 5000
_MESSAGE = 2000
_KNOWN: dict[str, ErrorClass] = {
    "Timeout": ErrorClass.TIMEOUT,
    "OOMKilled": ErrorClass.OOM_KILLED,
    "SandboxReplaced": ErrorClass.SANDBOX_REPLACED,
    "InvalidArguments": ErrorClass.INVALID_ARGUMENTS,
    "PathEscape": ErrorClass.INVALID_ARGUMENTS,
    "TooLarge": ErrorClass.TOO_LARGE,
    "Cancelled": ErrorClass.CANCELLED,
    "Killed": ErrorClass.CANCELLED,
}
Members = dict[str, Any]


class InvalidAnswer(AgentrunError):
    """The answer is not what the protocol says; nothing of it counts."""


def refusal_of(answer: SandboxAnswer) -> tuple[str, str] | None:
    """Class and message of a dispatch that the tool server did not take; None for one that it answered."""
    if answer.status == HTTP_OK:
        return None
    try:
        error = msgspec.convert(members_of(answer.body).get("error"), dict[str, Any])
    except (InvalidAnswer, msgspec.ValidationError):
        error = {}
    return str(error.get("class", f"HTTP {answer.status}"))[:64], str(error.get("message", ""))[:_MESSAGE]


def members_of(raw: bytes) -> Members:
    """The answer's JSON object. Raises InvalidAnswer."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidAnswer(f"the sandbox's answer is no JSON object: {str(error)[:200]}") from None


def bytes_of(members: Members, name: str) -> bytes:
    """A member given as text, or as base64 under `<name>Base64`. Raises InvalidAnswer."""
    encoded = members.get(f"{name}Base64")
    if isinstance(encoded, str):
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidAnswer(f"{name}Base64 of the sandbox's answer is no base64") from None
    text = members.get(name, "")
    if not isinstance(text, str):
        raise InvalidAnswer(f"{name} of the sandbox's answer is no text")
    return text.encode("utf-8", "surrogatepass")


def integer(members: Members, name: str) -> int | None:
    """An integer member, None where there is none."""
    value = members.get(name)
    return value if type(value) is int else None


def outcome(op: str, members: Members) -> Outcome:
    """The outcome of a tool's operation. Raises InvalidAnswer."""
    output, facts = _READERS[op](members)
    known, told = _error(members)
    code = integer(members, "exitCode")
    if known is None and op in ("run", "tool") and code != 0:
        known = ErrorClass.FAILED
    return Outcome(
        "Ok" if known is None else "Error",
        output,
        known,
        told,
        facts,
        truncated=members.get("truncated") is True,
    )


def _error(members: Members) -> tuple[ErrorClass | None, str]:
    kind = members.get("errorClass")
    if not kind:
        return None, ""
    message = str(members.get("message", ""))[:_MESSAGE]
    known = _KNOWN.get(str(kind))
    return (known, message) if known is not None else (ErrorClass.FAILED, f"{str(kind)[:64]}: {message}")


def _command(members: Members) -> tuple[bytes, tuple[str, ...]]:
    out, err = bytes_of(members, "stdout"), bytes_of(members, "stderr")
    code, name = integer(members, "exitCode"), members.get("signal")
    facts = [f"exit code {code}"] if code is not None else []
    if isinstance(name, str):
        facts.append(f"ended by {plain(name.encode('utf-8', 'replace'))[:32]}")
    survivors = len(_objects(members, "survivors"))
    if survivors:
        facts.append(f"{survivors} processes it left behind were ended")
    if not err:
        return out, tuple(facts)
    gap = b"" if not out or out.endswith(b"\n") else b"\n"
    return out + gap + b"--- standard error ---\n" + err, tuple(facts)


def _content(members: Members) -> tuple[bytes, tuple[str, ...]]:
    start, total = integer(members, "startLine"), integer(members, "linesTotal")
    return bytes_of(members, "content"), (f"from line {start}", f"{total} lines in the file")


def _written(members: Members) -> tuple[bytes, tuple[str, ...]]:
    names = (("bytesTotal", "bytes in the file"), ("replacements", "replaced"))
    counts = ((integer(members, name), told) for name, told in names)
    return b"", tuple(f"{count} {told}" for count, told in counts if count is not None)


def _entries(members: Members) -> tuple[bytes, tuple[str, ...]]:
    lines = [
        f"{entry.get('path')}{'/' if entry.get('type') == 'Directory' else ''}"
        + (f"\t{entry['bytes']} bytes" if type(entry.get("bytes")) is int else "")
        + (f"\t-> {entry['target']}" if entry.get("type") == "Link" else "")
        for entry in _objects(members, "entries")
    ]
    return "\n".join(lines).encode("utf-8", "surrogatepass"), (f"{len(lines)} entries",)


def _matches(members: Members) -> tuple[bytes, tuple[str, ...]]:
    lines = [f"{found.get('path')}:{found.get('line')}: {found.get('text')}" for found in _objects(members, "matches")]
    return "\n".join(lines).encode("utf-8", "surrogatepass"), (f"{len(lines)} matches",)


def _objects(members: Members, name: str) -> list[Members]:
    value = members.get(name, [])
    try:
        return msgspec.convert(value, list[dict[str, Any]])[:MAX_LISTED]
    except msgspec.ValidationError:
        raise InvalidAnswer(f"{name} of the sandbox's answer is no list of objects") from None


_READERS: dict[str, Callable[[Members], tuple[bytes, tuple[str, ...]]]] = {
    "run": _command,
    "tool": _command,
    "read": _content,
    "write": _written,
    "edit": _written,
    "list": _entries,
    "search": _matches,
}
