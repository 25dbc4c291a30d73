"""Provider OpenAIChat: the Chat Completions protocol, streamed, over the official SDK with its retries off."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import httpx2
import openai
from openai.types.chat import ChatCompletionChunk

from agentrun.models import openai_request, usage
from agentrun.models.credentials import header_safe
from agentrun.models.names import ToolNames
from agentrun.models.openai_errors import cut, failed
from agentrun.models.openai_reply import Assembly
from agentrun.models.port import Features, HttpClient, ModelReply, ModelRequest, NameLimits, Target

CONNECT_SECONDS = 10.0
Create = Callable[..., Awaitable[openai.AsyncStream[ChatCompletionChunk]]]


class OpenAIChat:
    """`http_client` gives the client that may dial an endpoint (see `agentrun.outbound`)."""

    name = "OpenAIChat"
    version = openai.__version__
    features = Features(
        tool_calls=True,
        structured_output=True,
        streaming=True,
        cancel=True,
        usage="ExactOrEstimated",
        continuation_ids=False,
        typed_errors=True,
    )
    name_limits = NameLimits(64, "a-zA-Z0-9_-")

    def __init__(self, http_client: HttpClient) -> None:
        self._http_client = http_client

    async def complete(self, request: ModelRequest, target: Target) -> ModelReply:
        """The whole reply, assembled from its deltas. Raises ModelError."""
        names = ToolNames(openai_request.names(request), self.name_limits)
        body = openai_request.body(request, target, names)
        assembly = Assembly()
        try:
            async with await self._open(body, target) as stream:
                await _feed(assembly, aiter(stream))
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, ValueError) as error:
            raise failed(error, target, usage.upper_bound(request) if assembly.started else None) from None
        if not assembly.ended:
            raise cut(usage.upper_bound(request))
        return assembly.reply(request, names)

    async def _open(self, body: dict[str, Any], target: Target) -> openai.AsyncStream[ChatCompletionChunk]:
        key = None if target.api_key is None else header_safe(target.api_key)
        client = openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=target.endpoint,
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            http_client=self._http_client(target.endpoint),
        )
        create = cast("Create", client.chat.completions.create)  # the body is data of a template, not a typed call
        return await create(**body, extra_headers=_left_out(with_key=key is not None))


def _left_out(*, with_key: bool) -> dict[str, str | openai.Omit]:
    """Headers the SDK would add by itself: organisation and project of the environment, a key where there is none."""
    names = ("OpenAI-Organization", "OpenAI-Project", *(() if with_key else ("Authorization",)))
    return {name: openai.Omit() for name in names}


async def _feed(assembly: Assembly, chunks: AsyncIterator[ChatCompletionChunk]) -> None:
    assembly.started = True  # the provider has accepted the request: from here on it may cost
    async for chunk in chunks:
        assembly.add(chunk)
