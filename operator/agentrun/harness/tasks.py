"""Ending tasks for sure."""

import asyncio
from collections.abc import Iterable
from typing import Any

_AGAIN_SECONDS = 0.2


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel until all have ended; their errors are theirs.

    Once is not enough: `asyncio.wait_for` of Python 3.11 forgets a cancellation that arrives together with its result.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_AGAIN_SECONDS)
