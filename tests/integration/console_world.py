"""A running read API: real HTTPS, a real SQLite journal, a small API server; runs to read, and a store to break."""

import asyncio
import contextlib
import sqlite3
import ssl
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
from tests.histories import READ, WRITE, created, dispatched
from tests.unit.controller import apiserver
from tests.unit.controller.apiserver import Answer, ApiServer, Asked

from agentrun.broker.keys import new_keys, server_certificate
from agentrun.broker.serving import serving, tls_context
from agentrun.console.app import ReadApi
from agentrun.console.tenants import Tenants
from agentrun.console.viewers import HEADER, Viewers
from agentrun.core.digest import sha256_digest
from agentrun.core.events import (
    Actor,
    Artifact,
    Event,
    ModelCompleted,
    ProposedCall,
    RunAdmitted,
    SandboxStarted,
    SteeringAdded,
    ToolCompleted,
    Usage,
    WorkspaceGot,
)
from agentrun.core.ids import Tenant
from agentrun.core.plan import RunPlan
from agentrun.journal.port import Blob
from agentrun.journal.runlog import RunLog
from agentrun.journal.sqlite import SqliteJournal
from agentrun.kube import KubeClient

Object = dict[str, Any]
BOUND = 20.0
CLUSTER = "cluster-uid"
OURS, THEIRS = Tenant(CLUSTER, "uid-of-team-a"), Tenant(CLUSTER, "uid-of-team-b")
MINE, OTHER, FOREIGN = (f"0b0c7c5e-0000-4000-8000-00000000000{number}" for number in (1, 2, 3))
ABSENT = "0b0c7c5e-0000-4000-8000-00000000000f"
SECRET = b"another run of the same tenant wrote this"
CONTENT = {
    "reply": f'see {sha256_digest(SECRET)}, {{"digest": "{sha256_digest(SECRET)}"}}'.encode(),
    "arguments": b'{"path":"a"}',
    "output": b"a cut out",
    "whole": b"a cut output, whole",
    "last": b"the last word",
    "snapshot": b"tar",
    "patch": b"--- a\n+++ b\n<script>",
    "report": b"<testsuite/>",
    "steer": b"be quick",
}  # fmt: skip
DIGEST = {name: sha256_digest(data) for name, data in CONTENT.items()}
ARTIFACTS = (
    Artifact("changes.patch", DIGEST["patch"], "text/x-diff", len(CONTENT["patch"])),
    Artifact("reports/unit 1.xml", DIGEST["report"], "application/xml", len(CONTENT["report"])),
)
OURS_TOKEN = "token-a"
USERS = {
    OURS_TOKEN: "system:serviceaccount:team-a:agentrun-viewer",
    "token-b": "system:serviceaccount:team-b:agentrun-viewer",
    "token-gone": "system:serviceaccount:team-gone:agentrun-viewer",
    "token-default": "system:serviceaccount:team-a:default",
}


@dataclass
class World:
    """A running read API, and what it works with."""

    journal: SqliteJournal
    cluster: ApiServer
    path: Path
    http: httpx2.AsyncClient = field(init=False)
    logs: dict[str, RunLog] = field(default_factory=dict[str, RunLog])
    audience: str = "agentrun"
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    later: float = 0.0  # seconds that the console believes have passed besides the real ones

    def clock(self) -> float:
        """The console's."""
        return time.monotonic() + self.later

    async def get(
        self, path: str, status: int = 200, token: str | None = OURS_TOKEN, **query: object
    ) -> httpx2.Response:
        """An answer that has this status."""
        headers = {} if token is None else {HEADER: token}
        params = {name: str(value) for name, value in query.items()}
        answer = await self.http.get(path, headers=headers, params=params, timeout=BOUND)
        assert answer.status_code == status, answer.text
        return answer

    async def read(self, path: str, **query: object) -> Object:
        """JSON of a success."""
        found: Object = (await self.get(path, **query)).json()  # type: ignore[arg-type]
        return found

    async def refused(self, path: str, status: int, token: str | None = OURS_TOKEN, **query: object) -> Object:
        """`error` of a refusal, which says nothing else."""
        answer = await self.get(path, status, token, **query)
        assert answer.headers["content-type"] == "application/json"
        assert list(answer.json()) == ["error"]
        error: Object = answer.json()["error"]
        assert set(error) == {"class", "message"}
        return error

    async def run(self, uid: str, tenant: Tenant = OURS, name: str = "fix", seconds: int = 0) -> RunLog:
        """An admitted run in the journal."""
        first = created(RunPlan(tools=(READ, WRITE)), uid=uid, tenant=tenant, name=name)
        log = await RunLog.create(self.journal, lambda: 1_700_000_000_000_000 + seconds * 1_000_000, first, "ann")
        await log.accept(RunAdmitted(), "admit")
        self.logs[uid] = log
        return log

    async def worked(self, uid: str, tenant: Tenant = OURS) -> RunLog:
        """A finished run with one tool call, a cut output and two artifacts."""
        log = await self.run(uid, tenant)
        await log.accept(SandboxStarted("work", "pod", "pod-1", "10.0.0.9", "c1"), "pod-1")
        await log.accept(SteeringAdded("s1", DIGEST["steer"], "NextModelCall", Actor("ann")), "steer-s1")
        call = ProposedCall("t1c0", "read", DIGEST["arguments"])
        receipt = f"pod=pod-1 container=c1 body={DIGEST['arguments']} output={DIGEST['whole']}"
        events: tuple[Event, ...] = (
            dispatched("t1"),
            ModelCompleted("t1", 1, DIGEST["reply"], "ToolCalls", Usage(9, 0, 5), calls=(call,)),
            dispatched("t1c0"),
            ToolCompleted("t1c0", 1, "Ok", DIGEST["output"], output_bytes=9, truncated=True, receipt=receipt),
            dispatched("t2"),
            ModelCompleted("t2", 1, DIGEST["last"], "Stop", Usage(9, 0, 5), summary="done"),
            dispatched("get1"),
            WorkspaceGot("get1", 1, DIGEST["snapshot"], ARTIFACTS),
        )
        blobs = [Blob(DIGEST[name], data) for name, data in CONTENT.items()]
        await self.journal.put_blobs(tenant, blobs[-1:])  # the operator's
        await log.record(events, log.fence, blobs[:-1])
        assert log.state.terminal
        return log

    def review(self, asked: Asked) -> Answer | None:
        """Tokens as the API server judges them."""
        if not asked.path.endswith("/tokenreviews"):
            return None
        user = USERS.get(asked.body["spec"]["token"])
        status = {"authenticated": True, "user": {"username": user}, "audiences": [self.audience]}
        return 201, {"status": status if user else {"authenticated": False}}


@contextlib.asynccontextmanager
async def running(tmp_path: Path) -> AsyncGenerator[World]:
    """The API on a free port, an empty journal and a cluster of two tenants."""
    keys, cluster = new_keys(datetime.now(UTC)), ApiServer()
    for name, uid in (("kube-system", CLUSTER), ("team-a", OURS.namespace_uid), ("team-b", THEIRS.namespace_uid)):
        cluster.put(f"/api/v1/namespaces/{name}", {"metadata": {"name": name, "uid": uid}})
    tls = tls_context(*server_certificate(keys, ("127.0.0.1",), datetime.now(UTC)))
    trust = ssl.create_default_context(cadata=keys.ca_pem)
    journal = SqliteJournal.open(tmp_path / "journal.db")
    async with apiserver.serving(cluster) as kube:
        found = World(journal, cluster, tmp_path / "journal.db")
        cluster.rules.append(found.review)
        async with (
            serving(console(found, kube).application(), "127.0.0.1", 0, tls) as port,
            httpx2.AsyncClient(base_url=f"https://127.0.0.1:{port}", verify=trust) as found.http,
        ):
            yield found
    await journal.close()


def console(world: World, kube: KubeClient) -> ReadApi:
    """As the console's process puts it together, on the test's clock."""
    viewers, tenants = Viewers(kube.token_review, world.clock), Tenants(kube, world.clock)
    return ReadApi(world.journal, viewers, tenants, world.ending)


def break_store(world: World) -> None:
    """The journal's file is no longer one."""
    with sqlite3.connect(world.path, isolation_level=None) as other:
        other.execute("ALTER TABLE events RENAME TO events_away")
    other.close()


def mend_store(world: World) -> None:
    """And is one again."""
    with sqlite3.connect(world.path, isolation_level=None) as other:
        other.execute("ALTER TABLE events_away RENAME TO events")
    other.close()
