"""One model call under its deadline."""

import asyncio

from agentrun.core.errors import ErrorClass
from agentrun.models import usage
from agentrun.models.errors import ModelError
from agentrun.models.port import ModelAdapter, ModelReply, ModelRequest, Target


async def ask(adapter: ModelAdapter, request: ModelRequest, target: Target, now: int) -> ModelReply:
    """The whole reply, or ModelError; `now` in microseconds UTC. Cancelling ends the provider's request.

    A call that runs out of time may have cost up to its bound, so that is its usage.
    """
    left = (request.deadline - now) / 1_000_000
    if left <= 0:
        raise ModelError(ErrorClass.TIMEOUT, "the call's deadline had passed before it was made")
    try:
        async with asyncio.timeout(left):
            return await adapter.complete(request, target)
    except TimeoutError:
        message = f"the model did not reply before the call's deadline ({left:.0f} s)"
        raise ModelError(ErrorClass.TIMEOUT, message, usage=usage.upper_bound(request)) from None
