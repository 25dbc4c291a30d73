"""The read API's resources (decision 0004). GET only, one tenant's runs only, bounded answers."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentrun.console.explain import events_json, explain
from agentrun.console.histories import Histories, is_uid, named_blobs
from agentrun.console.refusal import Refusal, bad_request, unknown
from agentrun.console.summary import summary
from agentrun.console.tenants import Tenants
from agentrun.console.viewers import HEADER, Viewers
from agentrun.core.state import State
from agentrun.journal.port import Journal, JournalUnavailable

MAX_PAGE = 500
MAX_WAIT_SECONDS = 30.0
POLL_SECONDS = 0.5
_JSON = "application/json"
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_log = structlog.get_logger()
Answer = Callable[[Request, Histories], Awaitable[Response]]


class ReadApi:
    """Handlers over one journal. Once `ending` is set nobody is kept waiting: the process goes down."""

    def __init__(self, journal: Journal, viewers: Viewers, tenants: Tenants, ending: asyncio.Event) -> None:
        self._journal = journal
        self._viewers = viewers
        self._tenants = tenants
        self._ending = ending

    def application(self) -> Starlette:
        """The ASGI application."""
        paths: dict[str, Answer] = {
            "/v1/runs": _runs,
            "/v1/runs/{run}/explain": _explain,
            "/v1/runs/{run}/events": self._events,
            "/v1/runs/{run}/artifacts": _artifacts,
            "/v1/runs/{run}/artifacts/{name:path}": _artifact,
            "/v1/runs/{run}/blobs/{digest}": _blob,
        }
        routes = [Route(path, self._guarded(answer), methods=["GET"]) for path, answer in paths.items()]
        return Starlette(routes=routes, exception_handlers={Exception: _failed, HTTPException: _no_such_resource})

    def _guarded(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                namespace = await self._viewers.namespace(request.headers.get(HEADER))
                return await answer(request, Histories(self._journal, await self._tenants.of(namespace)))
            except Refusal as refusal:
                return _refused(refusal)
            except JournalUnavailable as error:
                return _refused(Refusal(503, "JournalUnavailable", f"the journal does not answer ({error}): try again"))

        return handle

    async def _events(self, request: Request, histories: Histories) -> Response:
        after, limit = _number(request, "after", 0, 0, 2**53), _number(request, "limit", MAX_PAGE, 1, MAX_PAGE)
        wait = _number(request, "wait", 0, 0, int(MAX_WAIT_SECONDS))
        run = (await histories.head(request.path_params["run"])).key.run
        end = time.monotonic() + wait
        records = await histories.records(run, after, limit)
        while not records and (left := end - time.monotonic()) > 0 and not await self._over(request):
            await self._journal.wait_change(min(POLL_SECONDS, left))
            records = await histories.records(run, after, limit)
        following = records[-1].seq if records else after
        return _answered({"items": events_json(records), "next": following})

    async def _over(self, request: Request) -> bool:
        return self._ending.is_set() or await request.is_disconnected()


async def _runs(request: Request, histories: Histories) -> Response:
    limit = _number(request, "limit", MAX_PAGE, 1, MAX_PAGE)
    after = request.query_params.get("after", "")
    if after and not is_uid(after):
        raise bad_request(f"after must be the UID of a run, not {after[:40]!r}")
    heads = await histories.runs(after, limit)
    following = heads[-1].key.run if len(heads) == limit else None
    return _answered({"items": [summary(head) for head in heads], "next": following})


async def _explain(request: Request, histories: Histories) -> Response:
    return _answered(explain(await histories.history(request.path_params["run"])))


async def _artifacts(request: Request, histories: Histories) -> Response:
    state = (await histories.history(request.path_params["run"])).state
    items = [
        {"name": item.name, "digest": item.digest, "mediaType": item.media_type, "sizeBytes": item.size}
        for item in state.artifacts
    ]
    return _answered({"items": items})


async def _artifact(request: Request, histories: Histories) -> Response:
    state = (await histories.history(request.path_params["run"])).state
    return await _content(_artifact_digest(state, request.path_params["name"]), histories)


def _artifact_digest(state: State, name: str) -> str:
    for item in state.artifacts:
        if item.name == name:
            return item.digest
    raise unknown(f"the run has no artifact {name}: it has {', '.join(i.name for i in state.artifacts) or 'none'}")


async def _blob(request: Request, histories: Histories) -> Response:
    digest = request.path_params["digest"]
    if digest not in named_blobs((await histories.history(request.path_params["run"])).records):
        raise unknown(f"the history of this run names no content {digest}")
    return await _content(digest, histories)


async def _content(digest: str, histories: Histories) -> Response:
    """Always as bytes to keep: what a model or tool wrote must not be shown by a browser as a page."""
    headers = {"Digest": digest, "Content-Disposition": "attachment", **_HEADERS}
    return Response(await histories.blob(digest), media_type="application/octet-stream", headers=headers)


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 17 and least <= int(text) <= most):
        raise bad_request(f"{name} must be a whole number from {least} to {most}, not {text[:40]!r}")
    return int(text)


def _answered(content: dict[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status_code=status, media_type=_JSON, headers=_HEADERS)


async def _no_such_resource(request: Request, error: Exception) -> Response:
    """What the router itself refuses: another path, another method."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    if status == 405:
        return _refused(Refusal(405, "MethodNotAllowed", f"{request.method} is not answered here: this API only reads"))
    return _refused(Refusal(status, "NotFound", f"this API has no {request.url.path[:200]}"))


async def _failed(request: Request, error: Exception) -> Response:
    """The log has what the caller must not see."""
    _log.error("read_failed", path=request.url.path, exc_info=error)
    return _refused(Refusal(500, "InternalError", "the read API failed; its log says why"))


def _refused(refusal: Refusal) -> Response:
    return _answered({"error": {"class": refusal.kind, "message": str(refusal)}}, refusal.status)
