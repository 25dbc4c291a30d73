"""Who may call the broker: TokenReview, fixed names, remembered for at most a minute (design 2)."""

from typing import Any

import pytest

from agentrun.broker.callers import Callers
from agentrun.broker.refusal import Refused
from agentrun.core.errors import ErrorClass, Retry

HARNESS = "system:serviceaccount:agentrun-system:agentrun-harness"


class Reviews:
    """A TokenReview API: knows users by token, counts what it is asked."""

    def __init__(self, **users: str) -> None:
        self.users = users
        self.asked = 0
        self.audiences = ["agentrun-broker"]

    async def __call__(self, token: str, audience: str) -> dict[str, Any]:
        assert audience == "agentrun-broker"
        self.asked += 1
        if token not in self.users:
            return {"authenticated": False}
        return {"authenticated": True, "audiences": self.audiences, "user": {"username": self.users[token]}}


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def refused(callers: Callers, header: str | None) -> Refused:
    with pytest.raises(Refused) as caught:
        await callers.check(header)
    return caught.value


async def test_a_verdict_is_remembered_for_a_minute_and_no_longer() -> None:
    reviews, clock = Reviews(good=HARNESS), Clock()
    callers = Callers(reviews, "agentrun-system", clock)
    for _ in range(3):
        assert await callers.check("Bearer good") == HARNESS
    assert reviews.asked == 1
    del reviews.users["good"]
    clock.now += 60.0
    assert (await refused(callers, "Bearer good")).error_class is ErrorClass.UNAUTHENTICATED


@pytest.mark.parametrize(
    "user",
    [
        "system:serviceaccount:other:agentrun-harness",
        "system:serviceaccount:agentrun-system:agentrun-proxy",
        "system:serviceaccount:agentrun-system:agentrun-harness2",
        "system:admin",
    ],
)
async def test_any_other_account_is_denied(user: str) -> None:
    error = await refused(Callers(Reviews(token=user), "agentrun-system"), "Bearer token")
    assert error.error_class is ErrorClass.DENIED


async def test_a_token_of_another_audience_is_refused() -> None:
    reviews = Reviews(token=HARNESS)
    reviews.audiences = ["https://kubernetes.default.svc"]
    assert (await refused(Callers(reviews, "agentrun-system"), "Bearer token")).retry is Retry.REPEAT


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer " + "x" * 20_000])
async def test_without_a_bearer_token_nobody_is_asked(header: str | None) -> None:
    reviews = Reviews()
    assert (await refused(Callers(reviews, "agentrun-system"), header)).error_class is ErrorClass.UNAUTHENTICATED
    assert reviews.asked == 0


async def test_an_api_server_that_does_not_answer_is_no_refusal_for_good() -> None:
    async def silent(_token: str, _audience: str) -> dict[str, Any]:
        raise Refused(ErrorClass.AUTHORITY_UNAVAILABLE, "no answer")

    error = await refused(Callers(silent, "agentrun-system"), "Bearer token")
    assert (error.error_class, error.retry) == (ErrorClass.AUTHORITY_UNAVAILABLE, Retry.REPEAT)


async def test_a_flood_of_tokens_is_remembered_in_bounds() -> None:
    reviews = Reviews(good=HARNESS)
    callers = Callers(reviews, "agentrun-system")
    for number in range(3000):
        await refused(callers, f"Bearer bad{number}")
    assert len(callers._known) <= 1024
