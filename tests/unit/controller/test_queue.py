"""The work queue: one worker a key, nothing lost, failures come again with growing pauses."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Hashable

from agentrun.controller.queue import WorkQueue


@contextlib.asynccontextmanager
async def running(queue: WorkQueue) -> AsyncGenerator[None]:
    task = asyncio.create_task(queue.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def untold(_key: Hashable, _error: BaseException, _delay: float) -> None:
    """Nobody listens."""


async def until(probe: Callable[[], object]) -> None:
    for _ in range(2000):
        if probe():
            return
        await asyncio.sleep(0.005)
    raise TimeoutError("not so within ten seconds")


async def test_a_key_is_never_worked_on_by_two_and_a_change_meanwhile_comes_again() -> None:
    at_once: Counter[Hashable] = Counter()
    most: Counter[Hashable] = Counter()
    done: Counter[Hashable] = Counter()

    async def work(key: Hashable) -> None:
        at_once[key] += 1
        most[key] = max(most[key], at_once[key])
        await asyncio.sleep(0.01)
        at_once[key] -= 1
        done[key] += 1

    queue = WorkQueue(work, untold)
    async with running(queue):
        for _ in range(20):
            for key in "abc":
                queue.add(key)
            await asyncio.sleep(0.003)
        added_last = done.copy()
        for key in "abc":
            queue.add(key)
        await until(lambda: all(done[key] > added_last[key] for key in "abc"))
    assert set(most.values()) == {1}


async def test_a_key_added_many_times_before_its_turn_comes_once() -> None:
    done: Counter[Hashable] = Counter()

    async def work(key: Hashable) -> None:
        done[key] += 1

    queue = WorkQueue(work, untold)
    for _ in range(100):
        queue.add("a")
    async with running(queue):
        await until(lambda: done["a"])
        await asyncio.sleep(0.05)
    assert done["a"] == 1


async def test_a_key_that_fails_comes_again_with_growing_pauses_and_others_go_on_C37() -> None:
    told: list[float] = []
    done: Counter[Hashable] = Counter()

    async def work(key: Hashable) -> None:
        done[key] += 1
        if key == "bad" and done["bad"] < 4:
            raise ValueError("no")

    queue = WorkQueue(work, lambda _key, _error, delay: told.append(delay), workers=1)
    async with running(queue):
        queue.add("bad")
        await until(lambda: done["bad"] == 1)
        queue.add("good")
        await until(lambda: done["good"] and done["bad"] == 4)
    assert len(told) == 3
    assert all(0 < delay <= 60 for delay in told)
    assert told[2] > told[0]


async def test_of_several_wishes_for_later_the_earliest_holds() -> None:
    loop = asyncio.get_running_loop()
    at: list[float] = []

    async def work(_key: Hashable) -> None:
        at.append(loop.time())

    queue = WorkQueue(work, untold)
    async with running(queue):
        began = loop.time()
        queue.add_after("a", 30)
        queue.add_after("a", 0.05)
        queue.add_after("a", 20)
        await until(lambda: at)
    assert 0.04 <= at[0] - began < 5


async def test_what_work_asks_for_comes_after_that_time() -> None:
    done: Counter[Hashable] = Counter()

    async def work(key: Hashable) -> float | None:
        done[key] += 1
        return 0.01 if done[key] < 3 else None

    queue = WorkQueue(work, untold)
    async with running(queue):
        queue.add("a")
        await until(lambda: done["a"] == 3)
        await asyncio.sleep(0.05)
    assert done["a"] == 3
