"""Who may read: one account per tenant namespace, judged by TokenReview, remembered shortly (decision 0004, R23)."""

import gc
from types import FunctionType, MethodType, ModuleType
from typing import Any

import pytest

from agentrun.console.refusal import Refusal
from agentrun.console.viewers import DISTRUSTED_SECONDS, MAX_REMEMBERED, MAX_TOKEN_BYTES, TRUSTED_SECONDS, Viewers
from agentrun.kube.errors import Forbidden, Unavailable

VIEWER = "system:serviceaccount:team-a:agentrun-viewer"


class Authority:
    """Users by token as a TokenReview would tell them, and the time."""

    def __init__(self, **users: str) -> None:
        self.users = users
        self.audiences: list[str] | None = ["agentrun"]
        self.asked: list[tuple[str, str]] = []
        self.now = 1000.0
        self.error: Exception | None = None

    async def review(self, token: str, audience: str) -> dict[str, Any]:
        """`status` of a TokenReview."""
        self.asked.append((token, audience))
        if self.error:
            raise self.error
        if token not in self.users:
            return {"authenticated": False, "error": "token is expired"}
        status = {"authenticated": True, "user": {"username": self.users[token]}}
        return status if self.audiences is None else {**status, "audiences": self.audiences}

    def viewers(self) -> Viewers:
        """What is tested, on this authority and its time."""
        return Viewers(self.review, lambda: self.now)


async def refused(viewers: Viewers, token: str | None) -> Refusal:
    """The refusal of that token."""
    with pytest.raises(Refusal) as caught:
        await viewers.namespace(token)
    return caught.value


async def test_the_namespace_is_that_of_the_viewer_account() -> None:
    authority = Authority(good=VIEWER)
    assert await authority.viewers().namespace("good") == "team-a"
    assert authority.asked == [("good", "agentrun")]


@pytest.mark.parametrize(
    "user",
    [
        "system:serviceaccount:team-a:default",
        "system:serviceaccount:team-a:agentrun-viewer:x",
        "system:serviceaccount:team-a:agentrun-viewer2",
        "system:serviceaccount::agentrun-viewer",
        "system:serviceaccount:agentrun-viewer",
        "team-a:agentrun-viewer",
        "agentrun-viewer",
        "kubernetes-admin",
    ],
)
async def test_any_other_account_is_403_and_told_which_may(user: str) -> None:
    viewers = Authority(good=user).viewers()
    for _ in range(2):  # the second time from memory
        error = await refused(viewers, "good")
        assert (error.status, error.kind) == (403, "Denied")
        assert user in str(error)
        assert "agentrun-viewer" in str(error)


@pytest.mark.parametrize("audiences", [["https://kubernetes.default.svc"], [], None])
async def test_a_token_of_another_audience_is_401(audiences: list[str] | None) -> None:
    authority = Authority(good=VIEWER)
    authority.audiences = audiences
    error = await refused(authority.viewers(), "good")
    assert (error.status, error.kind) == (401, "Unauthenticated")
    assert "audience agentrun" in str(error)


@pytest.mark.parametrize("token", [None, "", "x" * (MAX_TOKEN_BYTES + 1)])
async def test_no_token_and_no_possible_token_is_401_without_a_question(token: str | None) -> None:
    authority = Authority()
    error = await refused(authority.viewers(), token)
    assert error.status == 401
    assert "X-Agentrun-Token" in str(error)
    assert authority.asked == []


async def test_a_token_is_remembered_for_at_most_60_seconds() -> None:
    assert TRUSTED_SECONDS <= 60
    authority = Authority(good=VIEWER)
    viewers = authority.viewers()
    await viewers.namespace("good")
    authority.users.clear()  # revoked
    authority.now += TRUSTED_SECONDS - 0.5
    assert await viewers.namespace("good") == "team-a"
    assert len(authority.asked) == 1
    authority.now += 0.5
    assert (await refused(viewers, "good")).status == 401
    assert len(authority.asked) == 2


async def test_the_60_seconds_count_from_the_question_not_from_a_slow_answer() -> None:
    authority = Authority(good=VIEWER)

    async def slow(token: str, audience: str) -> dict[str, Any]:
        status = await authority.review(token, audience)
        authority.now += 10
        return status

    viewers = Viewers(slow, lambda: authority.now)
    await viewers.namespace("good")
    authority.now += TRUSTED_SECONDS - 10
    await viewers.namespace("good")
    assert len(authority.asked) == 2


async def test_a_refused_token_is_asked_about_again_soon_but_not_at_each_request() -> None:
    authority = Authority()
    viewers = authority.viewers()
    await refused(viewers, "early")
    authority.users["early"] = VIEWER  # the ServiceAccount was made a moment later
    await refused(viewers, "early")
    assert len(authority.asked) == 1
    authority.now += DISTRUSTED_SECONDS
    assert await viewers.namespace("early") == "team-a"


async def test_two_tokens_are_not_taken_for_one_another() -> None:
    authority = Authority(a=VIEWER, b="system:serviceaccount:team-b:agentrun-viewer")
    viewers = authority.viewers()
    assert [await viewers.namespace(token) for token in ("a", "b", "a")] == ["team-a", "team-b", "team-a"]


def reachable(root: object) -> list[object]:
    """Everything that is held, directly or not, but for modules, types and functions (and what they hold)."""
    found: dict[int, object] = {}
    waiting = [root]
    while waiting:
        thing = waiting.pop()
        if id(thing) not in found and not isinstance(thing, type | ModuleType | FunctionType | MethodType):
            found[id(thing)] = thing
            waiting += gc.get_referents(thing)
    return list(found.values())


async def test_a_token_is_never_kept() -> None:
    viewers = Authority(**{"CANARY-good": VIEWER}).viewers()
    await viewers.namespace("CANARY-good")
    await refused(viewers, "CANARY-wrong")
    held = reachable(vars(viewers))
    assert VIEWER in held  # the walk does find what is remembered
    assert not any("CANARY" in repr(thing) for thing in held if isinstance(thing, str | bytes))


async def test_what_is_remembered_is_bounded_and_the_newest_stays() -> None:
    authority = Authority()
    viewers = authority.viewers()
    for number in range(MAX_REMEMBERED + 1):
        await refused(viewers, f"guess-{number}")
    asked = len(authority.asked)
    await refused(viewers, f"guess-{MAX_REMEMBERED}")
    assert len(authority.asked) == asked
    await refused(viewers, "guess-0")
    assert len(authority.asked) == asked + 1


@pytest.mark.parametrize("error", [Unavailable(503, "NoAnswer", "connection refused"), Forbidden(403, "Forbidden", "")])
async def test_an_api_server_that_does_not_judge_is_503_and_nothing_is_remembered(error: Exception) -> None:
    authority = Authority(good=VIEWER)
    authority.error = error
    viewers = authority.viewers()
    answer = await refused(viewers, "good")
    assert (answer.status, answer.kind) == (503, "AuthorityUnavailable")
    authority.error = None
    assert await viewers.namespace("good") == "team-a"


async def test_a_refusal_never_repeats_the_token_C31() -> None:
    authority = Authority(**{"CANARY-1": "kubernetes-admin"})
    viewers = authority.viewers()
    for token in ("CANARY-1", "CANARY-2"):
        assert "CANARY" not in str(await refused(viewers, token))
