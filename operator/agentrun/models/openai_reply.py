"""Puts a streamed reply together; nothing of it is a reply before its finish reason has come."""

from typing import Any

from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall

from agentrun.core.errors import ErrorClass
from agentrun.core.events import Usage
from agentrun.models import usage
from agentrun.models.errors import ModelError
from agentrun.models.names import ToolNames
from agentrun.models.port import Finish, ModelReply, ModelRequest, ToolCall

MAX_REPLY_BYTES = 8 * 1024 * 1024
_FINISH = {
    "stop": Finish.STOP,
    "tool_calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "length": Finish.LENGTH,
    "content_filter": Finish.CONTENT_FILTER,
}


class _Call:
    """One tool call as it grows. Some servers repeat the name in every delta."""

    def __init__(self) -> None:
        self.name = ""
        self.arguments: list[str] = []


class Assembly:
    """What has arrived so far."""

    def __init__(self) -> None:
        self.started = False
        self._text: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._finish: str | None = None
        self._report: dict[str, Any] | None = None
        self._size = 0

    @property
    def ended(self) -> bool:
        """Whether the provider has said why it stopped."""
        return self._finish is not None

    def add(self, chunk: ChatCompletionChunk) -> None:
        """Take the next chunk. Raises ModelError (TooLarge) beyond 8 MiB."""
        if chunk.usage is not None:
            self._report = chunk.usage.model_dump()
        for choice in chunk.choices[:1]:
            self._take_text(choice.delta.content or choice.delta.refusal or "")
            for call in choice.delta.tool_calls or ():
                self._take_call(call)
            self._finish = choice.finish_reason or self._finish

    def reply(self, request: ModelRequest, names: ToolNames) -> ModelReply:
        """The whole reply, with its usage or an upper bound of it. Raises ModelError for one that makes no sense."""
        spent = usage.openai_chat(self._report) or usage.upper_bound(request)
        calls = tuple(
            ToolCall(names.plain(call.name), "".join(call.arguments).encode("utf-8", "surrogatepass"))
            for _, call in sorted(self._calls.items())
        )
        return ModelReply(_text("".join(self._text)), calls, self._reason(calls, spent), spent)

    def _reason(self, calls: tuple[ToolCall, ...], spent: Usage) -> Finish:
        finish = _FINISH.get(self._finish or "")
        if finish is None:
            message = f"the provider ended its reply with an unknown finish_reason {self._finish!r}"
            raise ModelError(ErrorClass.INVALID_RESULT, message, usage=spent)
        if finish is Finish.TOOL_CALLS and not calls:
            message = "the provider announced tool calls and sent none"
            raise ModelError(ErrorClass.TRANSIENT, message, usage=spent)
        return Finish.TOOL_CALLS if finish is Finish.STOP and calls else finish

    def _take_text(self, text: str) -> None:
        self._grow(text)
        self._text.append(text)

    def _take_call(self, delta: ChoiceDeltaToolCall) -> None:
        call = self._calls.setdefault(delta.index, _Call())
        if delta.function is None:
            return
        call.name = call.name or delta.function.name or ""
        self._grow(delta.function.arguments or "")
        call.arguments.append(delta.function.arguments or "")

    def _grow(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_REPLY_BYTES:
            raise ModelError(ErrorClass.TOO_LARGE, f"the model's reply is larger than {MAX_REPLY_BYTES} bytes")


def _text(value: str) -> str:
    """Text that every store and terminal can hold: a lone surrogate is no character."""
    return value.encode("utf-8", "replace").decode("utf-8")
