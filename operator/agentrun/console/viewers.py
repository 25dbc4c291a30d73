"""Who reads: a token of a tenant namespace's `agentrun-viewer`, judged by TokenReview (decision 0004)."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from agentrun.console.refusal import Refusal
from agentrun.kube import KubeError

AUDIENCE = "agentrun"
HEADER = "X-Agentrun-Token"
ACCOUNT = "agentrun-viewer"
TRUSTED_SECONDS = 60.0
DISTRUSTED_SECONDS = 5.0
MAX_TOKEN_BYTES = 16_384
MAX_REMEMBERED = 1024
_FORM = "system:serviceaccount:"

# TokenReview of (token, audience): its `status`. Raises KubeError.
Review = Callable[[str, str], Awaitable[dict[str, Any]]]


class Viewers:
    """Remembers what a token's hash stands for, for at most 60 s; the token itself is never kept."""

    def __init__(self, review: Review, clock: Callable[[], float] = time.monotonic) -> None:
        self._review = review
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, str]] = OrderedDict()

    async def namespace(self, token: str | None) -> str:
        """Tenant namespace of the caller. Raises Refusal 401, 403, 503."""
        if not token or len(token) > MAX_TOKEN_BYTES:
            raise Refusal(401, "Unauthenticated", f"send a token of {ACCOUNT} for audience {AUDIENCE} in {HEADER}")
        mark = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        until, user = self._known.get(mark, (0.0, ""))
        asked_at = self._clock()
        if asked_at >= until:
            user = await self._ask(token)
            self._remember(mark, user, asked_at)
        if not user:
            message = f"the token was refused: it is expired or not of audience {AUDIENCE}; ask for a new one"
            raise Refusal(401, "Unauthenticated", message)
        return _namespace_of(user)

    async def _ask(self, token: str) -> str:
        try:
            status = await self._review(token, AUDIENCE)
        except KubeError as error:
            message = f"the API server did not judge the token ({error}): try again"
            raise Refusal(503, "AuthorityUnavailable", message) from error
        if status.get("authenticated") is not True or AUDIENCE not in (status.get("audiences") or []):
            return ""
        user: dict[str, Any] = status.get("user") or {}
        return str(user.get("username", ""))

    def _remember(self, mark: bytes, user: str, asked_at: float) -> None:
        """Counted from the question: a slow answer was true then, not now."""
        self._known[mark] = (asked_at + (TRUSTED_SECONDS if user else DISTRUSTED_SECONDS), user)
        self._known.move_to_end(mark)
        while len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)


def _namespace_of(user: str) -> str:
    namespace, _, account = user.removeprefix(_FORM).partition(":")
    if not user.startswith(_FORM) or account != ACCOUNT or not namespace:
        message = f"{user} may not read the journal; the ServiceAccount {ACCOUNT} of a tenant namespace may"
        raise Refusal(403, "Denied", message)
    return namespace
