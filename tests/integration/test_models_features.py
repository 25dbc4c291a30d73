"""The published feature matrix, held against each adapter: what it claims it does, what it denies it does not (R18)."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Any

import pytest
from tests.integration import openai_server as wire
from tests.integration.openai_server import Exchange, Provider

from agentrun.core.errors import ErrorClass
from agentrun.models.ask import ask
from agentrun.models.errors import ModelError
from agentrun.models.openai_chat import OpenAIChat
from agentrun.models.port import Features, Message, ModelAdapter, ModelReply, ModelRequest, Target
from agentrun.models.scripted import Scripted
from agentrun.outbound.dial import client
from agentrun.outbound.policy import DialPolicy

BOUND = 20.0
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}


@dataclass
class Bench:
    """An adapter with whatever is behind it, and the three situations a proof needs."""

    adapter: ModelAdapter
    provider: Provider
    turns: list[dict[str, Any]]

    async def ask(self, seconds: float = BOUND, **parameters: Any) -> ModelReply:
        """One call."""
        now = time.time_ns() // 1000
        request = ModelRequest((Message("user", "go"),), (), 64, now + int(seconds * 1_000_000))
        script = {"turns": self.turns} if isinstance(self.adapter, Scripted) else {}
        return await ask(self.adapter, request, Target("m", self.provider.url, {**script, **parameters}), now)


async def _tool_call(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.end(wire.call(0, '{"a":1}', name="run"), wire.finish("tool_calls"), wire.usage(9, 4))


@pytest.fixture(params=["Scripted", "OpenAIChat"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """Every adapter, about to answer with one tool call."""
    turn = {"toolCalls": [{"name": "run", "arguments": {"a": 1}}], "usage": {"inputTokens": 9, "outputTokens": 4}}
    async with wire.provider() as provider, client(DialPolicy(private=True)) as http:
        provider.handler = _tool_call
        adapters: dict[str, ModelAdapter] = {"Scripted": Scripted(), "OpenAIChat": OpenAIChat(lambda _endpoint: http)}
        yield Bench(adapters[request.param], provider, [turn])


async def proves_tool_calls(bench: Bench) -> bool:
    return [call.arguments for call in (await bench.ask()).tool_calls] == [b'{"a":1}']


async def proves_usage(bench: Bench) -> str:
    """Exact where a provider's silence cannot happen, else estimated."""
    exact = (await bench.ask()).usage
    assert (exact.input_tokens, exact.output_tokens, exact.estimated) == (9, 4, False)

    async def silent(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.end(wire.text("x"), wire.finish("stop"))

    bench.provider.handler = silent
    return "ExactOrEstimated" if (await bench.ask()).usage.estimated else "Exact"


async def proves_streaming(bench: Bench) -> bool:
    """A reply cut in the middle is noticed although its beginning was well-formed."""

    async def cut(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.send(wire.text("half"))
        exchange.writer.transport.abort()

    bench.provider.handler = cut
    try:
        await bench.ask()
    except ModelError as error:
        return error.error_class is ErrorClass.TRANSIENT
    return False


async def proves_cancel(bench: Bench) -> bool:
    """Nothing of the call is left when its task is cancelled."""
    bench.turns[0] = {"delaySeconds": 3600}
    asked, hung_up = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def slow(exchange: Exchange) -> None:
        asked.set()
        hung_up.set_result(await exchange.hung_up())

    bench.provider.handler = slow
    before = asyncio.all_tasks()
    task = asyncio.create_task(bench.ask())
    await asyncio.sleep(0)
    if not isinstance(bench.adapter, Scripted):
        await asyncio.wait_for(asked.wait(), BOUND)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if isinstance(bench.adapter, Scripted):
        return asyncio.all_tasks() == before
    return bool(await asyncio.wait_for(hung_up, BOUND))


async def proves_structured_output(bench: Bench) -> bool:
    await bench.ask(response_format=SCHEMA)
    return bool(bench.provider.seen) and bench.provider.seen[-1].body.get("response_format") == SCHEMA


async def proves_continuation_ids(bench: Bench) -> bool:
    """Whether anything of an earlier reply's provider-side state would be named in a request."""
    await bench.ask()
    await bench.ask()
    return any({"previous_response_id", "conversation"} & seen.body.keys() for seen in bench.provider.seen)


async def proves_typed_errors(bench: Bench) -> bool:
    """A wrong request is told apart and never retried."""
    bench.turns.clear()

    async def refuse(exchange: Exchange) -> None:
        await exchange.answer(400, {"error": {"message": "no"}})

    bench.provider.handler = refuse
    with pytest.raises(ModelError) as caught:
        await bench.ask()
    return caught.value.error_class is ErrorClass.INVALID_REQUEST


PROOFS: dict[str, Callable[[Bench], Awaitable[object]]] = {
    "tool_calls": proves_tool_calls,
    "structured_output": proves_structured_output,
    "streaming": proves_streaming,
    "cancel": proves_cancel,
    "usage": proves_usage,
    "continuation_ids": proves_continuation_ids,
    "typed_errors": proves_typed_errors,
}


@pytest.mark.parametrize("feature", [field.name for field in fields(Features)])
async def test_an_adapter_does_what_its_matrix_says_R18(bench: Bench, feature: str) -> None:
    assert await PROOFS[feature](bench) == getattr(bench.adapter.features, feature)
