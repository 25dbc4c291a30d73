"""Client of the broker, for the harness. Cancelling a call closes its connection, which ends the provider's request."""

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import httpx2
import msgspec

from agentrun.broker.wire import (
    MODEL_PATH,
    SIGN_PATH,
    ErrorAnswer,
    ModelAnswer,
    ModelCall,
    Refusal,
    SignAnswer,
    SignCall,
    Wire,
    decode,
    encode,
)
from agentrun.core.errors import AgentrunError, ErrorClass, Retry

Text = Callable[[], Awaitable[str]]

CONNECT_SECONDS = 5.0
SIGN_SECONDS = 15.0
GRACE_SECONDS = 10.0  # beyond a model call's own deadline, which the broker keeps
_Answer = TypeVar("_Answer", bound=Wire)
_HEADER_VALUE = re.compile(r"[\x21-\x7e]+")


class BrokerError(AgentrunError):
    """The broker refused, failed or did not answer. `refusal` holds class, message, retry and what it cost."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.error_class}: {refusal.message}")
        self.refusal = refusal
        self.error_class = refusal.error_class
        self.message = refusal.message
        self.retry = refusal.retry


class BrokerUnreachable(BrokerError):
    """No connection came about, so nothing was asked: waiting and asking again costs nothing but time."""


def file_text(path: Path) -> Text:
    """A provider that reads a file anew each time: projected tokens and certificates are rotated in place."""

    async def read() -> str:
        return (await asyncio.to_thread(path.read_text, "utf-8")).strip()

    return read


def cached_text(ask: Text, seconds: float) -> Text:
    """A provider that asks again after that many seconds."""
    known: list[tuple[float, str]] = []

    async def give() -> str:
        if not known or time.monotonic() >= known[0][0]:
            known[:] = [(time.monotonic() + seconds, await ask())]
        return known[0][1]

    return give


def fixed_text(value: str) -> Text:
    """A provider of a value that never changes."""

    async def give() -> str:
        return value

    return give


class BrokerClient:
    """One per process. `ca` provides PEM certificates, `token` a bearer token of audience `agentrun-broker`."""

    def __init__(self, url: str, *, ca: Text, token: Text) -> None:
        self._url = url.rstrip("/")
        self._ca = ca
        self._token = token
        self._pem = ""
        self._http: httpx2.AsyncClient | None = None
        self._retired: list[httpx2.AsyncClient] = []  # calls in flight may still use their connections
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        clients = [*self._retired, *([self._http] if self._http else [])]
        self._http, self._retired = None, []
        for http in clients:
            await http.aclose()

    async def model(self, call: ModelCall) -> ModelAnswer:
        """Ask the model for a reply. Raises BrokerError; waits until the request's deadline at most."""
        left = call.request.deadline / 1_000_000 - time.time() + GRACE_SECONDS
        return await self._post(MODEL_PATH, call, ModelAnswer, max(left, 1.0))

    async def sign(self, call: SignCall) -> SignAnswer:
        """Authorise and sign one dispatch to a sandbox. Raises BrokerError."""
        return await self._post(SIGN_PATH, call, SignAnswer, SIGN_SECONDS)

    async def _post(self, path: str, call: Wire, kind: type[_Answer], seconds: float) -> _Answer:
        try:
            async with asyncio.timeout(seconds):
                response = await self._send(path, encode(call))
        except TimeoutError:
            raise _unanswered(ErrorClass.TIMEOUT, f"the broker did not answer within {seconds:.0f} s") from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            message = f"the broker cannot be reached: {type(error).__name__}"
            raise BrokerUnreachable(Refusal(ErrorClass.TRANSIENT, message, Retry.REPEAT)) from None
        except (httpx2.HTTPError, OSError) as error:
            raise _unanswered(ErrorClass.TRANSIENT, f"the broker cannot be reached: {type(error).__name__}") from None
        return _read(response, kind)

    async def _send(self, path: str, body: bytes) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {_header_safe(await self._token())}", "Content-Type": "application/json"}
        try:
            return await (await self._client()).post(path, content=body, headers=headers)
        except httpx2.ConnectError:
            # The broker may have made new keys: read the certificate again, and only then try once more.
            if not await self._renewed():
                raise
        return await (await self._client()).post(path, content=body, headers=headers)

    async def _client(self) -> httpx2.AsyncClient:
        async with self._lock:
            if self._http is None:
                self._pem = await self._ca()
                self._http = httpx2.AsyncClient(
                    base_url=self._url,
                    verify=ssl.create_default_context(cadata=self._pem),
                    timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
                    limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32),
                    trust_env=False,
                )
            return self._http

    async def _renewed(self) -> bool:
        async with self._lock:
            if await self._ca() == self._pem:
                return False
            self._retired += [self._http] if self._http else []
            self._http = None
            return True


def _header_safe(token: str) -> str:
    """A token that is no header value is refused without being shown (C31)."""
    if not _HEADER_VALUE.fullmatch(token):
        message = "the broker token holds characters that no HTTP header may hold: check where it is read from"
        raise BrokerError(Refusal(ErrorClass.UNAUTHENTICATED, message, Retry.NEVER))
    return token


def _unanswered(error_class: ErrorClass, message: str) -> BrokerError:
    return BrokerError(Refusal(error_class, message, Retry.REPEAT))


def _read(response: httpx2.Response, kind: type[_Answer]) -> _Answer:
    try:
        if response.is_success:
            return decode(response.content, kind)
        answer = decode(response.content, ErrorAnswer)
    except msgspec.MsgspecError:
        raise _unanswered(
            ErrorClass.TRANSIENT, f"the broker answered {response.status_code} with something else than its protocol"
        ) from None
    raise BrokerError(answer.error)
