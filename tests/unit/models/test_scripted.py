"""Provider Scripted reads its replies from the template (design 4)."""

from typing import Any

import pytest

from agentrun.core.errors import ErrorClass, Retry
from agentrun.core.events import Usage
from agentrun.models.ask import ask
from agentrun.models.errors import ModelError
from agentrun.models.port import Finish, Message, ModelReply, ModelRequest, Target, ToolCall
from agentrun.models.scripted import Scripted

SECOND = 1_000_000


def request(replies: int = 0) -> ModelRequest:
    told = (Message("user", "go"), *(Message("assistant", "…") for _ in range(replies)))
    return ModelRequest(told, (), 100, 60 * SECOND)


async def reply(turns: Any, replies: int = 0) -> ModelReply:
    return await ask(Scripted(), request(replies), Target("scripted", parameters={"turns": turns}), 0)


async def test_the_turn_is_the_number_of_assistant_messages_R18() -> None:
    turns = [{"toolCalls": [{"name": "read", "arguments": {"path": "a"}}]}, {"text": "done"}]
    first, second = await reply(turns), await reply(turns, 1)
    assert first.tool_calls == (ToolCall("read", b'{"path":"a"}'),)
    assert (first.finish, second.finish) == (Finish.TOOL_CALLS, Finish.STOP)
    assert second.text == "done"


async def test_arguments_given_as_text_are_exactly_that_text_R16() -> None:
    broken = '{"path": "a",, '
    assert (await reply([{"toolCalls": [{"name": "read", "arguments": broken}]}])).tool_calls[0].arguments == (
        broken.encode()
    )


async def test_usage_and_finish_reason_are_as_scripted_C39() -> None:
    turn = {"text": "half", "finishReason": "Length", "usage": {"inputTokens": 3, "cachedInputTokens": 2}}
    answer = await reply([turn])
    assert answer.finish is Finish.LENGTH
    assert answer.usage == Usage(3, 2)


async def test_usage_that_is_not_scripted_is_not_free_R22() -> None:
    answer = await reply([{"text": "12345"}])
    assert answer.usage.output_tokens == 2
    assert answer.usage.input_tokens > 0


async def test_a_script_that_has_ended_says_what_to_add_R18() -> None:
    with pytest.raises(ModelError, match=r"turns has 1 entries and the run asks for reply 2") as caught:
        await reply([{"text": "a"}], 1)
    assert caught.value.error_class is ErrorClass.INVALID_REQUEST
    assert caught.value.retry is Retry.NEVER


@pytest.mark.parametrize(
    ("turn", "path"),
    [
        ({"txt": "a"}, r"turns\[0\]"),
        ({"finishReason": "Done"}, r"turns\[0\].finishReason"),
        ({"usage": {"inputTokens": -1}}, r"turns\[0\].usage.inputTokens"),
        ({"delaySeconds": -1}, r"turns\[0\].delaySeconds"),
        ({"toolCalls": [{"arguments": {}}]}, r"turns\[0\].toolCalls\[0\]"),
    ],
)
async def test_a_bad_script_names_the_field(turn: dict[str, Any], path: str) -> None:
    with pytest.raises(ModelError, match=path):
        await reply([turn])


async def test_a_delay_beyond_the_deadline_is_a_timeout_with_a_bound_of_usage_R22() -> None:
    short = ModelRequest((Message("user", "go"),), (), 100, SECOND // 50)
    with pytest.raises(ModelError, match="deadline") as caught:
        await ask(Scripted(), short, Target("s", parameters={"turns": [{"delaySeconds": 60}]}), 0)
    assert caught.value.error_class is ErrorClass.TIMEOUT
    assert caught.value.usage is not None
    assert caught.value.usage.estimated


async def test_a_deadline_in_the_past_asks_nobody() -> None:
    with pytest.raises(ModelError, match="had passed") as caught:
        await ask(Scripted(), request(), Target("s", parameters={"turns": [{}]}), 61 * SECOND)
    assert caught.value.usage is None
