"""When an attempt is tried again, and how long an effect waits inside one (R12)."""

import asyncio

from agentrun.core.retry import next_attempt_at
from agentrun.harness.attempt import Attempt

MAX_FAILURES = 4
_FIRST = 0.1
_LONGEST = 3.0


def later(attempt: Attempt, retry_after_seconds: float | None = None) -> int:
    """Microseconds UTC of the next attempt; durable once recorded."""
    failures = attempt.step.failures + 1
    return next_attempt_at(attempt.world.clock(), failures, attempt.world.chance(), retry_after_seconds)


def later_or_never(attempt: Attempt) -> int:
    """As `later`, but 0 when the step has failed often enough."""
    return 0 if attempt.step.failures + 1 >= MAX_FAILURES else later(attempt)


class Patience:
    """Growing pauses inside one attempt, never beyond its deadline."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._pause = _FIRST

    async def wait(self) -> bool:
        """Pause; False if the deadline leaves no time for another try."""
        left = self._attempt.seconds_left
        if left <= 0:
            return False
        await asyncio.sleep(min(left, self._pause * (0.5 + self._attempt.world.chance() / 2)))
        self._pause = min(_LONGEST, self._pause * 2)
        return self._attempt.seconds_left > 0
