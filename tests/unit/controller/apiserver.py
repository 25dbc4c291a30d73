"""A small API server on a real HTTP socket: objects by path, refusals as Kubernetes words them, no policies."""

import asyncio
import contextlib
import copy
import json
import socket
import ssl
import uuid
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agentrun.kube import KubeClient
from agentrun.kube.access import Access

Object = dict[str, Any]
Answer = tuple[int, Object]


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    body: Object


Rule = Callable[[Asked], Answer | None]


def refusal(status: int, reason: str, message: str) -> Answer:
    """The API's Status object."""
    return status, {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}


class ApiServer:
    """`rules` answer before anything else; `hold` keeps every answer back while it is cleared."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.asked: list[Asked] = []
        self.rules: list[Rule] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self._version = 0

    def put(self, path: str, found: Object) -> Object:
        """An object that is simply there."""
        self._version += 1
        meta = found.setdefault("metadata", {})
        meta.setdefault("uid", str(uuid.uuid4()))
        meta["resourceVersion"] = str(self._version)
        self.objects[path] = found
        return found

    def of(self, method: str, part: str = "") -> list[Asked]:
        """Requests of that method whose path has that part."""
        return [one for one in self.asked if one.method == method and part in one.path]

    def named(self, plural: str) -> list[Object]:
        """Objects of a kind."""
        return [found for path, found in self.objects.items() if path.split("/")[-2] == plural]

    async def handle(self, request: Request) -> JSONResponse:
        """Any request."""
        raw = await request.body()
        asked = Asked(request.method, request.url.path, dict(request.query_params), json.loads(raw) if raw else {})
        self.asked.append(asked)
        await self.hold.wait()
        status, body = self._answer(asked)
        return JSONResponse(body, status)

    def _answer(self, asked: Asked) -> Answer:
        for rule in self.rules:
            found = rule(asked)
            if found is not None:
                return found
        match asked.method:
            case "GET":
                return self._read(asked)
            case "POST":
                return self.create(asked)
            case "PATCH":
                return self._apply(asked)
            case "PUT":
                return self._replace(asked)
            case _:
                return self._delete(asked)

    def _read(self, asked: Asked) -> Answer:
        if asked.path in self.objects:
            return 200, self.objects[asked.path]
        plural = asked.path.rsplit("/", 1)[1]
        if not plural.endswith("s") or plural == "kube-system":
            return _missing(asked)
        base = asked.path.removesuffix(plural)
        wanted = dict(part.split("=") for part in asked.query.get("labelSelector", "").split(",") if part)
        items = [found for path, found in self.objects.items() if _listed(path, base, plural) and _has(found, wanted)]
        return 200, {"metadata": {"resourceVersion": str(self._version)}, "items": items}

    def create(self, asked: Asked) -> Answer:
        """A POST."""
        path = f"{asked.path}/{asked.body['metadata']['name']}"
        if path in self.objects:
            return refusal(409, "AlreadyExists", f"{path} already exists")
        made = copy.deepcopy(asked.body)
        made["metadata"].pop("uid", None)
        made["metadata"]["creationTimestamp"] = "2026-01-01T12:00:00Z"
        return 201, self.put(path, made)

    def _apply(self, asked: Asked) -> Answer:
        path = asked.path.removesuffix("/status")
        old = self.objects.get(path)
        if old is None:
            return _missing(asked) if path != asked.path else (201, self.put(path, copy.deepcopy(asked.body)))
        if asked.body["metadata"].get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            return refusal(409, "Conflict", "Precondition failed: UID in precondition")
        if path != asked.path:
            return 200, self.put(path, {**old, "status": asked.body["status"]})
        return 200, self.put(path, {**old, **asked.body, "metadata": {**old["metadata"], **asked.body["metadata"]}})

    def _replace(self, asked: Asked) -> Answer:
        old = self.objects.get(asked.path)
        if old is None:
            return _missing(asked)
        if asked.body["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
            return refusal(409, "Conflict", "the object has been modified; please apply your changes to the latest one")
        return 200, self.put(asked.path, asked.body)

    def _delete(self, asked: Asked) -> Answer:
        old = self.objects.get(asked.path)
        if old is None:
            return _missing(asked)
        if asked.body.get("preconditions", {}).get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            return refusal(409, "Conflict", "Precondition failed: UID in precondition")
        return 200, self.objects.pop(asked.path)


def _listed(path: str, base: str, plural: str) -> bool:
    folder, _, _ = path.rpartition("/")
    return path.startswith(base) and folder.rsplit("/", 1)[1] == plural


def _has(found: Object, wanted: dict[str, str]) -> bool:
    labels: dict[str, str] = found["metadata"].get("labels", {})
    return wanted.items() <= labels.items()


def _missing(asked: Asked) -> Answer:
    return refusal(404, "NotFound", f"{asked.path} not found")


@contextlib.asynccontextmanager
async def serving(api: ApiServer) -> AsyncGenerator[KubeClient]:
    """The server on loopback and a client of it."""
    routes = [Route("/{path:path}", api.handle, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])]
    config = uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        access = Access(f"http://127.0.0.1:{listener.getsockname()[1]}", ssl.create_default_context(), lambda: None)
        try:
            async with KubeClient(access) as kube:
                yield kube
        finally:
            api.hold.set()
            server.should_exit = True
            await task
