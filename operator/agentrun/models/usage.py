"""Providers' usage reports as disjoint buckets, and an upper bound where a report is missing or nonsense (C43)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from agentrun.core.events import Usage
from agentrun.models.port import ModelRequest

# Roles, separators and tool framing that a provider's chat template adds around what it is sent.
FRAMING_TOKENS = 32


def upper_bound(request: ModelRequest) -> Usage:
    """What the call can have cost at most: no tokenizer makes more tokens than there are bytes."""
    pieces = 1 + len(request.messages) + len(request.tools) + sum(len(m.tool_calls) for m in request.messages)
    sent = len(msgspec.json.encode((request.messages, request.tools))) + FRAMING_TOKENS * pieces
    return Usage(input_tokens=sent, output_tokens=request.max_output_tokens, estimated=True)


def openai_chat(report: Mapping[str, Any] | None) -> Usage | None:
    """Chat Completions: `prompt_tokens` contain the cached ones, `completion_tokens` the reasoning ones."""
    if report is None:
        return None
    return _split(
        _count(report, "prompt_tokens"),
        _count(_details(report, "prompt_tokens_details"), "cached_tokens"),
        _count(report, "completion_tokens"),
        _count(_details(report, "completion_tokens_details"), "reasoning_tokens"),
    )


def openai_responses(report: Mapping[str, Any] | None) -> Usage | None:
    """Responses: `input_tokens` contain the cached ones, `output_tokens` the reasoning ones."""
    if report is None:
        return None
    return _split(
        _count(report, "input_tokens"),
        _count(_details(report, "input_tokens_details"), "cached_tokens"),
        _count(report, "output_tokens"),
        _count(_details(report, "output_tokens_details"), "reasoning_tokens"),
    )


def anthropic(report: Mapping[str, Any] | None) -> Usage | None:
    """Messages: `input_tokens` stand beside the cached ones; writing the cache is input; thinking is output."""
    if report is None:
        return None
    cached = _count(report, "cache_read_input_tokens")
    written = _count(report, "cache_creation_input_tokens")
    uncached = _count(report, "input_tokens")
    if cached is None or written is None or uncached is None:
        return None
    return _split(uncached + written + cached, cached, _count(report, "output_tokens"), 0)


def _details(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return report.get(name) or {}


def _count(report: Mapping[str, Any], name: str) -> int | None:
    """A count; absent is 0, anything but a whole non-negative number is None."""
    value = report.get(name)
    if value is None:
        return 0
    return value if type(value) is int and value >= 0 else None


def _split(sent: int | None, cached: int | None, made: int | None, reasoning: int | None) -> Usage | None:
    """Disjoint buckets; None for a report that cannot be true: a part above its whole, or nothing at all."""
    if sent is None or cached is None or made is None or reasoning is None:
        return None
    if cached > sent or reasoning > made or sent + made == 0:
        return None
    return Usage(sent - cached, cached, made - reasoning, reasoning)
