"""The OpenAIChat adapter against a real server on loopback that speaks the protocol (R18, C39, C40, C42, C43)."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from tests.integration import openai_server as wire
from tests.integration.openai_server import Exchange, Provider

from agentrun.core.errors import ErrorClass, Retry
from agentrun.core.events import Usage
from agentrun.models.ask import ask
from agentrun.models.errors import ModelError
from agentrun.models.openai_chat import OpenAIChat
from agentrun.models.port import Finish, Message, ModelReply, ModelRequest, Target, ToolCall, ToolOffer
from agentrun.outbound.dial import client
from agentrun.outbound.policy import DialPolicy

KEY = "sk-CANARY-31"
BOUND = 20.0
Say = Callable[..., Awaitable[ModelReply]]


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """The server."""
    async with wire.provider() as running:
        yield running


@pytest.fixture
async def say(provider: Provider) -> AsyncIterator[Say]:
    """`say(handler, …)`: one call that the handler answers."""
    async with client(DialPolicy(private=True)) as http:
        adapter = OpenAIChat(lambda _endpoint: http)

        async def call(
            handler: wire.Handler,
            *,
            messages: tuple[Message, ...] = (Message("user", "go"),),
            tools: tuple[ToolOffer, ...] = (),
            key: str | None = KEY,
            seconds: float = BOUND,
            **parameters: Any,
        ) -> ModelReply:
            provider.handler = handler
            now = time.time_ns() // 1000
            request = ModelRequest(messages, tools, 64, now + int(seconds * 1_000_000))
            target = Target("model-1", provider.url, parameters, key)
            return await ask(adapter, request, target, now)

        yield call


def streams(*events: Any) -> wire.Handler:
    """A handler that streams the events to their end."""

    async def handle(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.end(*events)

    return handle


def answers(status: int, message: str = "no", **headers: str) -> wire.Handler:
    """A handler that answers with an error."""

    async def handle(exchange: Exchange) -> None:
        await exchange.answer(status, {"error": {"message": message, "code": "x"}}, **headers)

    return handle


def cuts(*events: Any) -> wire.Handler:
    """A handler that breaks the connection in the middle of its stream."""

    async def handle(exchange: Exchange) -> None:
        await exchange.begin()
        for event in events:
            await exchange.send(event)
        exchange.writer.transport.abort()

    return handle


async def refused(call: Awaitable[ModelReply]) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await call
    assert KEY not in str(caught.value)
    return caught.value


async def test_text_is_assembled_and_usage_is_disjoint_C43(say: Say, provider: Provider) -> None:
    report = wire.usage(30, 12, cached=20, reasoning=5)
    reply = await say(streams(wire.text("Hel"), wire.text("lo"), wire.finish("stop"), report), temperature=0)
    assert reply == ModelReply("Hello", (), Finish.STOP, Usage(10, 20, 7, 5))
    (seen,) = provider.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.body["max_completion_tokens"] == 64
    assert seen.body["temperature"] == 0
    assert seen.body["stream_options"] == {"include_usage": True}


async def test_tool_calls_are_assembled_from_deltas_and_keep_the_models_exact_text_R16(say: Say) -> None:
    reply = await say(
        streams(
            wire.call(0, "", name="read", id="call_provider"),
            wire.call(0, '{ "path" :'),
            wire.call(1, '{"n": 1e2', name="list", id="call_provider"),
            wire.call(0, ' "a"}'),
            wire.call(1, "}"),
            wire.finish("tool_calls"),
            wire.usage(5, 5),
        )
    )
    assert reply.finish is Finish.TOOL_CALLS
    assert reply.tool_calls == (ToolCall("read", b'{ "path" : "a"}'), ToolCall("list", b'{"n": 1e2}'))


async def test_a_badly_named_tool_is_renamed_on_the_wire_and_back_C40(say: Say, provider: Provider) -> None:
    bad = "server.tools/" + "x" * 70
    schema = {"type": "object"}

    async def handle(exchange: Exchange) -> None:
        offered = [tool["function"]["name"] for tool in exchange.body["tools"]]
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in offered)
        assert exchange.body["messages"][1]["tool_calls"][0]["function"]["name"] == offered[0]
        await exchange.begin()
        await exchange.end(wire.call(0, "{}", name=offered[0]), wire.finish("tool_calls"), wire.usage(1, 1))

    history = (Message("user", "go"), Message("assistant", "", (ToolCall(bad, b"{}", "t1c0"),)),
               Message("tool", "ok", call_id="t1c0"))  # fmt: skip
    reply = await say(handle, messages=history, tools=(ToolOffer(bad, "d", schema), ToolOffer("run", "d", schema)))
    assert reply.tool_calls[0].name == bad
    assert provider.seen[0].body["tools"][1]["function"] == {"name": "run", "description": "d", "parameters": schema}


async def test_history_carries_our_call_ids_and_the_exact_arguments_R16(say: Say, provider: Provider) -> None:
    history = (
        Message("system", "be brief"),
        Message("user", "go"),
        Message("assistant", "", (ToolCall("read", b'{ "a":1}', "t1c0"),)),
        Message("tool", "content", call_id="t1c0"),
    )
    await say(streams(wire.text("ok"), wire.finish("stop"), wire.usage(1, 1)), messages=history)
    assert provider.seen[0].body["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t1c0", "type": "function", "function": {"name": "read", "arguments": '{ "a":1}'}}],
        },
        {"role": "tool", "tool_call_id": "t1c0", "content": "content"},
    ]


@pytest.mark.parametrize("delta", [wire.text("half"), wire.call(0, '{"path": "a', name="write")])
async def test_a_reply_cut_at_the_output_cap_is_length_C39(say: Say, delta: dict[str, Any]) -> None:
    assert (await say(streams(delta, wire.finish("length"), wire.usage(1, 64)))).finish is Finish.LENGTH


async def test_content_filter_is_its_own_finish_R18(say: Say) -> None:
    assert (await say(streams(wire.finish("content_filter"), wire.usage(1, 1)))).finish is Finish.CONTENT_FILTER


async def test_servers_that_say_stop_beside_tool_calls_mean_tool_calls(say: Say) -> None:
    reply = await say(streams(wire.call(0, "{}", name="run"), wire.finish("stop"), wire.usage(1, 1)))
    assert reply.finish is Finish.TOOL_CALLS


async def test_an_unknown_finish_reason_completes_nothing_C39(say: Say) -> None:
    error = await refused(say(streams(wire.text("x"), wire.finish("banana"), wire.usage(1, 1))))
    assert error.error_class is ErrorClass.INVALID_RESULT


@pytest.mark.parametrize("report", [[], [wire.usage(0, 0)], [wire.usage(-4, 2)], [wire.usage(3, 2, cached=9)]])
async def test_missing_or_impossible_usage_is_an_upper_bound_C24(say: Say, report: list[Any]) -> None:
    reply = await say(streams(wire.text("x"), wire.finish("stop"), *report))
    assert reply.usage.estimated
    assert reply.usage.output_tokens == 64
    assert reply.usage.input_tokens > 0


@pytest.mark.parametrize(
    ("status", "error_class", "retry"),
    [
        (400, ErrorClass.INVALID_REQUEST, Retry.NEVER),
        (401, ErrorClass.UNAUTHENTICATED, Retry.NEVER),
        (403, ErrorClass.UNAUTHENTICATED, Retry.NEVER),
        (404, ErrorClass.INVALID_REQUEST, Retry.NEVER),
        (413, ErrorClass.TOO_LARGE, Retry.NEVER),
        (422, ErrorClass.INVALID_REQUEST, Retry.NEVER),
        (429, ErrorClass.RATE_LIMITED, Retry.REPEAT),
        (500, ErrorClass.TRANSIENT, Retry.REPEAT),
        (503, ErrorClass.TRANSIENT, Retry.REPEAT),
        (529, ErrorClass.TRANSIENT, Retry.REPEAT),
    ],
)
async def test_status_decides_the_retry_and_is_asked_once_R12(
    say: Say, provider: Provider, status: int, error_class: ErrorClass, retry: Retry
) -> None:
    error = await refused(say(answers(status, "because")))
    assert (error.error_class, error.retry) == (error_class, retry)
    assert "because" in error.message
    assert error.usage is None
    assert len(provider.seen) == 1  # the SDK's own retries are off


async def test_retry_after_is_read_as_seconds_and_as_a_date_C42(say: Say) -> None:
    error = await refused(say(answers(429, Retry_After="17")))
    assert error.retry_after_seconds == 17
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    error = await refused(say(answers(429, Retry_After=at)))
    assert error.retry_after_seconds is not None
    assert 60 < error.retry_after_seconds <= 90
    assert (await refused(say(answers(429, Retry_After="9e99")))).retry_after_seconds is None
    assert (await refused(say(answers(429, Retry_After="soon")))).retry_after_seconds is None
    assert (await refused(say(answers(429, Retry_After="999999999")))).retry_after_seconds == 86_400


@pytest.mark.parametrize("events", [[], [wire.text("Hel")], [wire.call(0, '{"pa', name="read")]])
async def test_a_cut_stream_is_transient_and_costs_its_bound_C39(say: Say, events: list[Any]) -> None:
    error = await refused(say(cuts(*events)))
    assert (error.error_class, error.retry) == (ErrorClass.TRANSIENT, Retry.REPEAT)
    assert error.usage is not None
    assert error.usage.estimated


async def test_a_stream_that_ends_in_order_but_without_a_reason_is_cut_C39(say: Say) -> None:
    error = await refused(say(streams(wire.text("Hel"))))
    assert error.error_class is ErrorClass.TRANSIENT
    assert error.usage is not None


async def test_an_error_inside_the_stream_is_transient(say: Say) -> None:
    error = await refused(say(streams(wire.text("x"), {"error": {"message": "overloaded"}})))
    assert error.error_class is ErrorClass.TRANSIENT
    assert "overloaded" in error.message


async def test_something_else_than_the_protocol_is_an_invalid_result(say: Say) -> None:
    error = await refused(say(streams("{this is no JSON")))
    assert error.error_class is ErrorClass.INVALID_RESULT


async def test_nobody_listens_is_transient_and_free_R12(say: Say, provider: Provider) -> None:
    provider.url = "http://127.0.0.1:1/v1"
    error = await refused(say(streams()))
    assert (error.error_class, error.usage) == (ErrorClass.TRANSIENT, None)


async def test_an_endpoint_the_policy_closes_is_denied_for_good_C29(say: Say, provider: Provider) -> None:
    provider.url = "http://169.254.169.254/v1"
    error = await refused(say(streams()))
    assert (error.error_class, error.retry) == (ErrorClass.DENIED, Retry.NEVER)
    assert "link-local" in error.message


async def test_a_slow_reply_ends_at_the_deadline_and_the_server_sees_it_R18(say: Say) -> None:
    noticed = asyncio.get_running_loop().create_future()

    async def handle(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.send(wire.text("one"))
        noticed.set_result(await exchange.hung_up())

    error = await refused(say(handle, seconds=0.5))
    assert error.error_class is ErrorClass.TIMEOUT
    assert error.usage is not None
    assert await asyncio.wait_for(noticed, BOUND)


@pytest.mark.parametrize("begun", [False, True])
async def test_cancelling_closes_the_providers_connection_R18(say: Say, begun: bool) -> None:
    loop = asyncio.get_running_loop()
    waiting, noticed = loop.create_future(), loop.create_future()

    async def handle(exchange: Exchange) -> None:
        if begun:
            await exchange.begin()
            await exchange.send(wire.text("one"))
        waiting.set_result(None)
        noticed.set_result(await exchange.hung_up())

    task = asyncio.create_task(say(handle))  # type: ignore[arg-type]
    await asyncio.wait_for(waiting, BOUND)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.wait_for(noticed, BOUND)


async def test_without_a_key_none_is_sent(say: Say, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "CANARY-environment")
    await say(streams(wire.text("x"), wire.finish("stop"), wire.usage(1, 1)), key=None)
    assert "authorization" not in provider.seen[0].headers
    assert "CANARY" not in json.dumps(provider.seen[0].headers)


async def test_a_key_with_a_line_break_is_refused_unsent_and_unseen_C31(say: Say, provider: Provider) -> None:
    error = await refused(say(streams(), key=f"{KEY}\nX-Evil: 1"))
    assert error.error_class is ErrorClass.UNAUTHENTICATED
    assert "X-Evil" not in str(error)
    assert provider.seen == []


async def test_a_key_that_the_provider_repeats_is_redacted_C31(say: Say) -> None:
    error = await refused(say(answers(401, f"Incorrect API key provided: {KEY}")))
    assert "[redacted]" in error.message


async def test_parameters_pass_but_the_frame_is_the_adapters_R22(say: Say, provider: Provider) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    done = streams(wire.text("{}"), wire.finish("stop"), wire.usage(1, 1))
    await say(done, response_format=schema, max_tokens=9000)
    assert provider.seen[0].body["response_format"] == schema
    assert provider.seen[0].body["max_tokens"] == 64  # lowered to the reserved cap, under the older name
    assert "max_completion_tokens" not in provider.seen[0].body
    error = await refused(say(done, model="another"))
    assert (error.error_class, len(provider.seen)) == (ErrorClass.INVALID_REQUEST, 1)
    assert "modelParameters.model" in error.message


async def test_a_lone_surrogate_stays_in_arguments_and_leaves_text_C64(say: Say) -> None:
    reply = await say(
        streams(
            wire.text("a\ud800b"), wire.call(0, '"\ud800"', name="run"), wire.finish("tool_calls"), wire.usage(1, 1)
        )
    )
    assert reply.text == "a?b"
    assert reply.tool_calls[0].arguments == b'"\xed\xa0\x80"'
