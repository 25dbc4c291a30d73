"""When to try again: bounded exponential back-off with jitter, as data (R12). The shell supplies the random number."""

SECOND = 1_000_000


def next_attempt_at(now: int, failures: int, jitter: float, retry_after_seconds: float | None = None) -> int:
    """Microseconds UTC of the next attempt.

    `failures` counts from 1; `jitter` lies in [0, 1); back-off doubles from 1 s to 60 s, between half and whole.
    A receiver's `Retry-After` is honoured as a lower bound, itself bounded by one hour.
    """
    whole = min(60.0, 2.0 ** min(failures - 1, 16))
    delay = whole * (0.5 + jitter / 2)
    if retry_after_seconds is not None:
        delay = max(delay, min(max(retry_after_seconds, 0.0), 3600.0))
    return now + int(delay * SECOND)
