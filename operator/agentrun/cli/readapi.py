"""The read API as the caller reaches it: by the API server's service proxy, with a viewer's token (decision 0004)."""

import time
from typing import Any, cast
from urllib.parse import quote, urlencode

import httpx2
import msgspec

from agentrun.cli.plain import Refused
from agentrun.cli.readapi_errors import refused_by_proxy, refused_by_reader, refused_token
from agentrun.cli.session import Session
from agentrun.kube.errors import KubeError, Unavailable, error_of

Object = dict[str, Any]
ACCOUNT = "agentrun-viewer"
AUDIENCE = "agentrun"
HEADER = "X-Agentrun-Token"
TOKEN_SECONDS = 600
_RENEW_AFTER = 480
_PROXY = "/api/v1/namespaces/{}/services/https:agentrun-read:https/proxy/v1/"


class Away(Refused):
    """The read API or what it needs does not answer now: the same request may be made again."""


class ReadApi:
    """GET only. Every method raises Refused (Away where a repetition may help)."""

    def __init__(self, opened: Session) -> None:
        self._session = opened
        self._token = ""
        self._asked_at = 0.0

    async def explain(self, run: str) -> Object:
        """The seven questions of a run, by name or UID."""
        return await self._json(f"runs/{quote(run, safe='')}/explain")

    async def events(self, run: str, after: int, wait: int = 0) -> list[Object]:
        """Events behind a sequence number; with `wait` (seconds) not before there is one."""
        query = {"after": after, "limit": 500, **({"wait": wait} if wait else {})}
        items = (await self._json(f"runs/{quote(run, safe='')}/events?{urlencode(query)}")).get("items")
        return cast("list[Object]", items or [])

    async def artifacts(self, run: str) -> list[Object]:
        """`{name, digest, mediaType, sizeBytes}` each."""
        items = (await self._json(f"runs/{quote(run, safe='')}/artifacts")).get("items")
        return cast("list[Object]", items or [])

    async def artifact(self, run: str, name: str) -> tuple[bytes, str | None]:
        """Its bytes, unchecked, and the digest that the answer claims."""
        response = await self._get(f"runs/{quote(run, safe='')}/artifacts/{quote(name, safe='')}")
        return response.content, response.headers.get("Digest")

    async def _json(self, path: str) -> Object:
        found = _object((await self._get(path)).content)
        if found is None:
            raise Refused("the read API's answer is no JSON object: operator and kubectl plugin may not fit together")
        return found

    async def _get(self, path: str) -> httpx2.Response:
        response = await self._once(path)
        if response.status_code == 401:
            self._token = ""  # the account may have been made anew: its old tokens are worth nothing
            if _reader_error(response) is None:
                await self._session.sign_in_again()
            response = await self._once(path)
        if response.is_success:
            return response
        raise self._refusal(response)

    async def _once(self, path: str) -> httpx2.Response:
        token = await self._viewer_token()
        url = _PROXY.format(quote(self._session.operator_namespace, safe="")) + path
        try:
            return await self._session.kube.raw("GET", url, headers={HEADER: token})
        except KubeError as error:
            raise Away(f"the API server does not answer: {error.message}") from error

    async def _viewer_token(self) -> str:
        if not self._token or time.monotonic() - self._asked_at > _RENEW_AFTER:
            self._asked_at = time.monotonic()
            try:
                self._token = await self._request_token()
            except KubeError as error:
                words = refused_token(error, self._session.namespace, self._session.operator_namespace)
                raise (Away if isinstance(error, Unavailable) else Refused)(words) from error
        return self._token

    async def _request_token(self) -> str:
        namespace = self._session.namespace
        try:
            return await self._session.kube.token_request(ACCOUNT, namespace, AUDIENCE, TOKEN_SECONDS)
        except KubeError as error:
            if error.status != 401:
                raise
            await self._session.sign_in_again()
            return await self._session.kube.token_request(ACCOUNT, namespace, AUDIENCE, TOKEN_SECONDS)

    def _refusal(self, response: httpx2.Response) -> Refused:
        status = response.status_code
        said = _reader_error(response)
        if said is not None:
            words = refused_by_reader(status, said, self._session.namespace)
        else:
            error = error_of(status, _object(response.content) or {"message": response.text[:500]})
            words = refused_by_proxy(error, self._session.operator_namespace)
        return (Away if status in (429, 502, 503, 504) else Refused)(words)


def _object(content: bytes) -> Object | None:
    try:
        found: Any = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return None
    return cast("Object", found) if isinstance(found, dict) else None


def _reader_error(response: httpx2.Response) -> Object | None:
    """`{class, message}` where the read API itself refused; None where the API server did on the way."""
    found = (_object(response.content) or {}).get("error")
    return cast("Object", found) if isinstance(found, dict) else None
