"""Who calls: a projected token, judged by TokenReview against fixed account names (design 2)."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from agentrun.broker.refusal import Refused
from agentrun.broker.wire import AUDIENCE
from agentrun.core.errors import ErrorClass, Retry

ACCOUNTS = ("agentrun-operator", "agentrun-harness")
TRUSTED_SECONDS = 60.0
DISTRUSTED_SECONDS = 5.0
MAX_TOKEN_BYTES = 16_384
MAX_REMEMBERED = 1024

# Posts a TokenReview for (token, audience) and gives its status. Raises Refused (AuthorityUnavailable).
Review = Callable[[str, str], Awaitable[dict[str, Any]]]


class Callers:
    """Remembers a verdict on a token, by its hash, for at most 60 s. A token is never kept."""

    def __init__(self, review: Review, namespace: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._review = review
        self._names = {f"system:serviceaccount:{namespace}:{name}" for name in ACCOUNTS}
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, str | None]] = OrderedDict()

    async def check(self, authorization: str | None) -> str:
        """User name of the caller. Raises Refused (Unauthenticated, Denied, AuthorityUnavailable)."""
        token = _bearer(authorization)
        mark = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        until, user = self._known.get(mark, (0.0, None))
        if self._clock() >= until:
            user = await self._ask(token)
            self._remember(mark, user)
        if user is None:
            # A rotated token may be refused for a moment: the caller reads its file anew and tries again.
            message = "the token was refused: send an unexpired one of audience agentrun-broker"
            raise Refused(ErrorClass.UNAUTHENTICATED, message, Retry.REPEAT)
        if user not in self._names:
            raise Refused(ErrorClass.DENIED, f"{user} may not call the broker; {', '.join(sorted(self._names))} may")
        return user

    async def _ask(self, token: str) -> str | None:
        status = await self._review(token, AUDIENCE)
        if status.get("authenticated") is not True or AUDIENCE not in (status.get("audiences") or []):
            return None
        user: dict[str, Any] = status.get("user") or {}
        return str(user.get("username", "")) or None

    def _remember(self, mark: bytes, user: str | None) -> None:
        self._known[mark] = (self._clock() + (DISTRUSTED_SECONDS if user is None else TRUSTED_SECONDS), user)
        self._known.move_to_end(mark)
        while len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN_BYTES:
        message = "send the header `Authorization: Bearer <projected token of audience agentrun-broker>`"
        raise Refused(ErrorClass.UNAUTHENTICATED, message)
    return token.strip()
