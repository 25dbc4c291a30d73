"""A work queue: each key once, one worker per key at a time, back-off per key, delayed keys."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable

Work = Callable[[Hashable], Awaitable[float | None]]
MAX_BACKOFF = 60.0


class WorkQueue:
    """Keys in; `work(key)` runs and may return seconds after which the key comes again."""

    def __init__(
        self, work: Work, on_error: Callable[[Hashable, BaseException, float], None], workers: int = 16
    ) -> None:
        self._work = work
        self._on_error = on_error
        self._workers = workers
        self._ready: asyncio.Queue[Hashable] = asyncio.Queue()
        self._waiting: set[Hashable] = set()
        self._running: set[Hashable] = set()
        self._again: set[Hashable] = set()
        self._failures: dict[Hashable, int] = {}
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}

    def add(self, key: Hashable) -> None:
        """Work on the key soon; while it is being worked on, once more afterwards."""
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: Hashable, seconds: float) -> None:
        """Work on the key then, unless it comes earlier; the earliest of several wishes holds."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._worker())

    def _due(self, key: Hashable) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def _worker(self) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._running.add(key)
            try:
                await self._one(key)
            finally:
                self._running.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    async def _one(self, key: Hashable) -> None:
        try:
            after = await self._work(key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the key is tried again and the error is told
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay = min(MAX_BACKOFF, 0.2 * 2 ** min(failures, 10)) * random.uniform(0.5, 1)  # noqa: S311
            self._on_error(key, error, delay)
            self.add_after(key, delay)
            return
        self._failures.pop(key, None)
        if after is not None:
            self.add_after(key, after)
