"""Credentials of models: Secrets of the platform namespace, read by the broker alone (R17)."""

import base64
import binascii
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from agentrun.broker.authority import Object
from agentrun.broker.redaction import Redactor
from agentrun.broker.refusal import Refused
from agentrun.core.errors import ErrorClass

SECRET_TYPE = "agentrun.dev/credential"  # noqa: S105
KEY_ENTRY = "apiKey"
HOSTS_ENTRY = "hosts"
FRESH_SECONDS = 10.0

# Reads a Secret of the platform namespace by name; None if there is none. Raises Refused (AuthorityUnavailable).
ReadSecret = Callable[[str], Awaitable[Object | None]]


class Credentials:
    """Keys by Secret name, read again after 10 s, and hidden from every log line from the first reading on."""

    def __init__(self, read: ReadSecret, redactor: Redactor, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._redactor = redactor
        self._clock = clock
        self._known: dict[str, tuple[float, Object]] = {}

    async def key_for(self, name: str, endpoint: str) -> str:
        """The key of a Secret for an endpoint. Raises Refused (Unauthenticated, Denied, AuthorityUnavailable).

        The Secret's own `hosts`, where it has that entry, say where its key may be sent.
        """
        secret = await self._secret(name)
        hosts = _entry(secret, HOSTS_ENTRY)
        host = urlsplit(endpoint).hostname or ""
        if hosts is not None and host not in hosts.replace(",", " ").split():
            raise Refused(ErrorClass.DENIED, f"Secret {name} names hosts, and {host} is not one of them")
        key = _entry(secret, KEY_ENTRY)
        if key is None:
            raise Refused(ErrorClass.UNAUTHENTICATED, f"Secret {name} has no entry {KEY_ENTRY}: add it")
        self._redactor.hide(key)
        return key

    async def _secret(self, name: str) -> Object:
        until, secret = self._known.get(name, (0.0, None))
        if secret is None or self._clock() >= until:
            secret = await self._read(name)
            if secret is None:
                raise Refused(ErrorClass.UNAUTHENTICATED, f"the platform namespace has no Secret {name}")
            if secret.get("type") != SECRET_TYPE:
                raise Refused(ErrorClass.DENIED, f"Secret {name} must be of type {SECRET_TYPE} to be used as a key")
            self._known[name] = (self._clock() + FRESH_SECONDS, secret)
        return secret


def _entry(secret: Object, name: str) -> str | None:
    data: Object = secret.get("data") or {}
    if name not in data:
        return None
    try:
        return base64.b64decode(data[name], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        raise Refused(ErrorClass.UNAUTHENTICATED, f"entry {name} of a credential is no UTF-8 text") from None
