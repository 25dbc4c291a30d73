"""Which adapter speaks which provider's protocol. An SDK is loaded with the first call that needs it."""

import importlib.util
from collections.abc import Callable
from typing import assert_never

from agentrun.api.agentclass import Provider
from agentrun.core.errors import ErrorClass
from agentrun.models.errors import ModelError
from agentrun.models.port import HttpClient, ModelAdapter
from agentrun.models.scripted import Scripted

Loader = Callable[[HttpClient], ModelAdapter]


def adapter_for(provider: Provider, http_client: HttpClient) -> ModelAdapter:
    """The adapter of a provider. Raises ModelError (InvalidRequest) for one this installation cannot speak with."""
    match provider:
        case Provider.SCRIPTED:
            return Scripted()
        case Provider.OPENAI_CHAT:
            return _openai_chat(http_client)
        case Provider.OPENAI_RESPONSES | Provider.ANTHROPIC:
            message = f"this version has no adapter for provider {provider}: use a model of provider OpenAIChat"
            raise ModelError(ErrorClass.INVALID_REQUEST, message)
        case _:
            assert_never(provider)


def _openai_chat(http_client: HttpClient) -> ModelAdapter:
    if importlib.util.find_spec("openai") is None:
        message = "provider OpenAIChat needs the package `openai` beside the broker: install `agentrun[openai]`"
        raise ModelError(ErrorClass.INVALID_REQUEST, message)
    from agentrun.models.openai_chat import OpenAIChat  # noqa: PLC0415

    return OpenAIChat(http_client)
