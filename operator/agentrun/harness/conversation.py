"""The request to the model, made of the transcript's entries (R19): neutral messages, every call answered."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentrun.core.digest import sha256_digest
from agentrun.core.transcript import Entry
from agentrun.harness.facts import Blobs, RunFacts
from agentrun.models.port import Finish, Message, ToolCall, ToolOffer

INTERRUPTED = "Error: the call was interrupted; what it did is not known"
_CUT = "(the reply was cut)"


class StoredCall(msgspec.Struct, frozen=True):
    """A call as proposed; `arguments` are the model's own bytes."""

    id: str
    name: str
    arguments: bytes


class StoredReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The blob of a model's message."""

    text: str
    finish: str
    calls: tuple[StoredCall, ...] = ()


def fingerprint(facts: RunFacts, input_digest: str, entries: Sequence[Entry]) -> str:
    """Digest of all that a request says, without reading any content (R3 (2))."""
    said = [(entry.role, entry.text, entry.blob, entry.call_id) for entry in entries]
    return sha256_digest(msgspec.json.encode([facts.template_digest, input_digest, said]))


def offers(facts: RunFacts) -> tuple[ToolOffer, ...]:
    """The tools shown in this request."""
    return tuple(ToolOffer(tool.name, tool.description, tool.input_schema) for tool in facts.catalogue.shown())


async def messages(blobs: Blobs, facts: RunFacts, entries: Sequence[Entry]) -> tuple[Message, ...]:
    """The whole conversation."""
    made = [Message("system", _instructions(facts.template)), Message("user", _task(facts.input))]
    waiting: list[str] = []
    for entry in entries:
        if entry.role != "tool":
            made += _unanswered(waiting)
        message = await _message(blobs, entry)
        if message.role == "tool" and message.call_id not in waiting:
            continue  # answered already, or never asked: a provider would refuse the request
        waiting = [call for call in waiting if call != message.call_id] + [call.id for call in message.tool_calls]
        made.append(message)
    return (*made, *_unanswered(waiting))


def _unanswered(waiting: list[str]) -> list[Message]:
    """Every call has an answer before anybody else speaks, whatever interrupted it (C52)."""
    answers = [Message("tool", INTERRUPTED, call_id=call) for call in waiting]
    waiting.clear()
    return answers


async def _message(blobs: Blobs, entry: Entry) -> Message:
    raw = await blobs.get(entry.blob) if entry.blob else b""
    match entry.role:
        case "assistant":
            return _assistant(msgspec.json.decode(raw, type=StoredReply))
        case "tool":
            return Message("tool", _text(entry, raw), call_id=entry.call_id)
        case _:
            return Message("user", _text(entry, raw))


def _assistant(reply: StoredReply) -> Message:
    """A reply cut at the output cap proposed nothing (C39)."""
    if reply.finish == Finish.LENGTH:
        return Message("assistant", reply.text or _CUT)
    calls = tuple(ToolCall(call.name, call.arguments, call.id) for call in reply.calls)
    return Message("assistant", reply.text, calls)


def _text(entry: Entry, raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace") if entry.blob else entry.text


def _instructions(template: dict[str, Any]) -> str:
    text = str(template.get("instructions", ""))
    pinned = template.get("context", {}).get("pinned", ())
    return text + "".join(f"\n- {constraint}" for constraint in pinned)


def _task(given: dict[str, Any]) -> str:
    """The input's text, its parameters as JSON, and the files that lie in the workspace."""
    parts = [str(given.get("text") or "Begin.")]
    if given.get("parameters"):
        parts.append("Parameters: " + msgspec.json.encode(given["parameters"]).decode())
    paths = [str(file.get("path")) for file in given.get("files", ())]
    if paths:
        parts.append("Files in the workspace: " + ", ".join(paths))
    return "\n\n".join(parts)
