"""A small client: JSON in, JSON out, typed errors, no retries of its own (callers know what may be repeated)."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx2
import msgspec

from agentrun.kube.access import Access, access
from agentrun.kube.errors import NotFound, Unavailable, error_of
from agentrun.kube.resources import (
    SERVICE_ACCOUNTS,
    TOKEN_REVIEWS,
    Resource,
)

Object = dict[str, Any]
PAGE = 500
TIMEOUT = httpx2.Timeout(30, connect=10)
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
_AGENT = "agentrun"


class KubeClient:
    """One connection pool to one API server, as one user."""

    def __init__(self, where: Access) -> None:
        self.access = where
        self._http = httpx2.AsyncClient(
            base_url=where.server,
            verify=where.tls,
            timeout=TIMEOUT,
            headers={"User-Agent": _AGENT},
            limits=httpx2.Limits(max_connections=64, max_keepalive_connections=32),
            proxy=where.proxy,
            trust_env=False,
        )

    @classmethod
    async def connect(cls, kubeconfig: Path | None = None, context: str | None = None) -> Self:
        """Raises NoCluster."""
        return cls(await access(kubeconfig, context))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    # --- objects ---------------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """Raises NotFound."""
        return await self.request("GET", resource.path(namespace, name))

    async def find(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """The object, None if there is none."""
        try:
            return await self.get(resource, name, namespace)
        except NotFound:
            return None

    async def list(
        self, resource: Resource, namespace: str | None = None, labels: str = ""
    ) -> tuple[list[Object], str]:
        """All items, page by page, and the resourceVersion to watch from."""
        items: list[Object] = []
        query = {"limit": str(PAGE), **({"labelSelector": labels} if labels else {})}
        while True:
            page = await self.request("GET", resource.path(namespace), query=query)
            items += page.get("items") or []
            following = page["metadata"].get("continue")
            if not following:
                return items, str(page["metadata"]["resourceVersion"])
            query["continue"] = following

    async def create(self, resource: Resource, body: Object, namespace: str | None = None) -> Object:
        """Raises AlreadyExists, Forbidden, Invalid."""
        return await self.request("POST", resource.path(namespace), body=body)

    async def apply(
        self,
        resource: Resource,
        body: Object,
        *,
        manager: str,
        subresource: str = "",
        force: bool = True,
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply of a whole object; its metadata says where."""
        meta = body["metadata"]
        query = {
            "fieldManager": manager,
            **({"force": "true"} if force else {}),
            **({"dryRun": "All"} if dry_run else {}),
        }
        path = resource.path(meta.get("namespace"), meta["name"], subresource)
        return await self.request("PATCH", path, body=body, query=query, content_type=APPLY)

    async def merge(self, resource: Resource, name: str, namespace: str, body: Object, manager: str = "") -> Object:
        """JSON merge patch."""
        query = {"fieldManager": manager} if manager else {}
        return await self.request("PATCH", resource.path(namespace, name), body=body, query=query, content_type=MERGE)

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str = "", grace: int | None = None
    ) -> None:
        """Delete; with `uid` only that very object. Raises NotFound, Conflict (another UID)."""
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self.request("DELETE", resource.path(namespace, name), body=options)

    # --- identity --------------------------------------------------------------------------------------------------

    async def token_review(self, token: str, audience: str) -> Object:
        """`status` of a TokenReview."""
        spec = {"token": token, "audiences": [audience]}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status: Object = (await self.create(TOKEN_REVIEWS, body))["status"]
        return status

    async def token_request(self, account: str, namespace: str, audience: str, seconds: int = 600) -> str:
        """A bound token of a service account."""
        spec = {"audiences": [audience], "expirationSeconds": seconds}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self.request("POST", SERVICE_ACCOUNTS.path(namespace, account, "token"), body=body)
        return str(answer["status"]["token"])

    # --- transport -------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        """One request; raises a KubeError."""
        content = msgspec.json.encode(body) if body is not None else None
        headers = self._headers() | ({"Content-Type": content_type} if content is not None else {})
        try:
            response = await self._http.request(method, path, content=content, headers=headers, params=query)
        except httpx2.HTTPError as error:
            raise Unavailable(503, "NoAnswer", f"{method} {path}: {type(error).__name__} {error}") from error
        return _object(response)

    async def raw(self, method: str, path: str, *, headers: Mapping[str, str], body: bytes = b"") -> httpx2.Response:
        """A request whose answer is none of the API's objects (service proxy); raises Unavailable only."""
        try:
            return await self._http.request(method, path, content=body, headers=self._headers() | dict(headers))
        except httpx2.HTTPError as error:
            raise Unavailable(503, "NoAnswer", f"{method} {path}: {type(error).__name__} {error}") from error

    @asynccontextmanager
    async def watch(
        self, resource: Resource, version: str, *, namespace: str | None = None, labels: str = "", seconds: int = 300
    ) -> AsyncGenerator[AsyncIterator[Object]]:
        """Watch events from a resourceVersion on, bookmarks included. Raises KubeError at the start."""
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
            **({"labelSelector": labels} if labels else {}),
        }
        timeout = httpx2.Timeout(seconds + 20, connect=10)
        try:
            async with self._http.stream(
                "GET", resource.path(namespace), params=query, headers=self._headers(), timeout=timeout
            ) as response:
                if not response.is_success:
                    await response.aread()
                    _object(response)
                yield _lines(response)
        except httpx2.HTTPError as error:
            raise Unavailable(503, "NoAnswer", f"watch {resource.plural}: {type(error).__name__} {error}") from error

    def _headers(self) -> dict[str, str]:
        token = self.access.token()
        return {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}


async def _lines(response: httpx2.Response) -> AsyncIterator[Object]:
    async for line in response.aiter_lines():
        if line:
            yield msgspec.json.decode(line)


def _object(response: httpx2.Response) -> Object:
    try:
        found: Any = msgspec.json.decode(response.content) if response.content else {}
    except msgspec.DecodeError:
        found = {"message": response.text[:500]}
    body: Object = found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    if not response.is_success:
        raise error_of(response.status_code, body)
    return body
