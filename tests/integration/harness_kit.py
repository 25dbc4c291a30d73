"""A harness among real parts: SQLite journal, broker over HTTPS, tool servers as processes. Only the API server and the
operator are stand-ins: Pods are kept in a table, and one task does what the operator would."""

import asyncio
import base64
import io
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentrun.api.digests import tool_digest
from agentrun.broker.app import Api
from agentrun.broker.callers import Callers
from agentrun.broker.client import BrokerClient, fixed_text
from agentrun.broker.credentials import Credentials
from agentrun.broker.gate import Gate
from agentrun.broker.keys import Keys, new_keys, server_certificate
from agentrun.broker.metrics import Metrics
from agentrun.broker.model_calls import ModelCalls
from agentrun.broker.redaction import Redactor, json_logger
from agentrun.broker.service import Broker
from agentrun.broker.serving import serving, tls_context
from agentrun.broker.signing import Signer
from agentrun.broker.view import Kind, revision_name
from agentrun.core.digest import canonical, sha256_digest
from agentrun.core.events import (
    Actor,
    EventRecord,
    Quiesced,
    RunAdmitted,
    RunCreated,
    SandboxGone,
    SandboxStarted,
    StopRequested,
    decode,
)
from agentrun.core.ids import Tenant
from agentrun.core.needs import wants_verify_pod, wants_work_pod
from agentrun.core.plan import BudgetPlan, RunPlan, ToolPlan, VerificationPlan
from agentrun.core.state import State
from agentrun.harness.ports import Limits, PodIdentity, PodsUnavailable, World, wall_clock
from agentrun.harness.worker import Worker
from agentrun.journal import open_journal
from agentrun.journal.port import Blob, Journal
from agentrun.journal.runlog import RunLog
from agentrun.tools.podip import PodIPSandbox
from agentrun.tools.sandbox import SandboxAnswer, SandboxEndpoint, SandboxUnreachable
from agentrun.tools.workspace import Entry, Workspace, write

TOOLSERVER = Path(__file__).resolve().parents[2] / "sandbox-images" / "toolserver"
TENANT = Tenant("cluster-1", "ns-uid-1")
NAMESPACE, DEFINITION = "team-a", "fixer"
HARNESS = "system:serviceaccount:agentrun-system:agentrun-harness"
TOKEN = "token-of-the-harness"
BOUND = 60.0
Object = dict[str, Any]


async def eventually(holds: Callable[[], bool], what: str, seconds: float = BOUND) -> None:
    """Poll until it holds; fails naming what did not come about."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        await asyncio.sleep(0.02)


# --- what a run is made of -----------------------------------------------------------------------------------------


def builtin(name: str, **more: Any) -> Object:
    """A ToolSpec of a built-in tool, named like it in lower case."""
    reads = name in ("Read", "List", "Search")
    return {
        "name": name.lower(), "executor": "Builtin", "builtin": name,
        "sideEffectClass": "ReadOnly" if reads else "Workspace", "retryClass": "Repeat" if reads else "Reconcile",
        **more,
    }  # fmt: skip


BUILTINS = [builtin(name) for name in ("Run", "Read", "Write", "Edit", "List", "Search")]


def call(tool: str, **arguments: Any) -> Object:
    """A turn's tool call."""
    return {"name": tool, "arguments": arguments}


def calls(*given: Object, **more: Any) -> Object:
    """A turn that proposes calls."""
    return {"toolCalls": list(given), **more}


def template(*turns: Object, tools: list[Object] | None = None, **more: Any) -> Object:
    """A template with a script."""
    return {
        "instructions": "Do the work.", "modelName": "scripted", "modelParameters": {"turns": list(turns)},
        "tools": BUILTINS if tools is None else tools, "sandbox": {"image": "any"}, **more,
    }  # fmt: skip


def plan_of(made: Object, *, workspace: bool) -> RunPlan:
    """The plan the operator would make of it."""
    tools = tuple(
        ToolPlan(
            spec["name"], tool_digest(spec), spec["executor"], spec["sideEffectClass"], spec["retryClass"],
            spec.get("timeoutSeconds", 20), builtin=spec.get("builtin", ""),
            max_output_bytes=spec.get("maxOutputBytes", 65_536),
        )
        for spec in made["tools"]
    )  # fmt: skip
    verification = VerificationPlan(30) if "verification" in made else None
    budget = BudgetPlan(model_calls=50, tool_calls=100)
    return RunPlan(tools, budget, verification, model_timeout_seconds=30, workspace=workspace)


# --- sandboxes -----------------------------------------------------------------------------------------------------


class ToolServer:
    """The real tool server as pid 1 of a process namespace of its own, with its workspace and state on disk."""

    def __init__(self, folder: Path, run: str, pod_uid: str, keys: Keys) -> None:
        self.workspace, self.state = folder / "workspace", folder / "state"
        for path in (self.workspace, self.state):
            path.mkdir(parents=True, exist_ok=True)
        self.pod_uid = pod_uid
        self.container = 0
        self.port = 0
        self.process: asyncio.subprocess.Process | None = None
        public = base64.urlsafe_b64encode(keys.current.public).rstrip(b"=").decode()
        self.run = run
        self._config = {
            "v": 1, "run": run, "keys": [{"kid": keys.current.kid, "publicKey": public}], "port": 0,
            "workspace": str(self.workspace), "state": str(self.state),
        }  # fmt: skip

    @property
    def container_id(self) -> str:
        """Another one after each start."""
        return f"containerd://{self.pod_uid}-{self.container}"

    async def start(self) -> None:
        """Start, or start again in place, as the kubelet does."""
        self.container += 1
        program = (
            f"import sys; sys.path.insert(0, {str(TOOLSERVER)!r}); from agentrun_sandbox.server import main; main()"
        )
        self.process = await asyncio.create_subprocess_exec(
            "unshare", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL",
            sys.executable, "-I", "-S", "-X", "utf8", "-c", program,
            env={"AGENTRUN_SANDBOX": json.dumps(self._config), "POD_UID": self.pod_uid, "PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = (await asyncio.wait_for(self.process.stdout.readline(), BOUND)).decode()
        self.port = int(line.split("port ")[1].split(",")[0])

    async def kill(self) -> None:
        """End everything of it at once."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


class Sandboxes:
    """Pods of one test: what the API server would say of them, and the port to their tool servers."""

    def __init__(self, folder: Path, keys: Keys) -> None:
        self.folder = folder
        self.keys = keys
        self.pods: dict[str, ToolServer] = {}  # by Pod name
        self.sent: list[tuple[str, bytes]] = []
        self.unavailable = 0  # reads of a Pod that the API server will not answer

    async def create(self, run: str, name: str) -> ToolServer:
        """A Pod with a running tool server."""
        server = ToolServer(self.folder / name, run, f"uid-{name}", self.keys)
        await server.start()
        self.pods[name] = server
        return server

    async def delete(self, name: str) -> None:
        """Gone with all its processes."""
        await self.pods.pop(name).kill()

    async def close(self) -> None:
        """End all."""
        for name in list(self.pods):
            await self.delete(name)

    async def identity(self, namespace: str, name: str) -> PodIdentity | None:  # noqa: ARG002
        """As the harness's port asks for it."""
        if self.unavailable:
            self.unavailable -= 1
            raise PodsUnavailable("the API server does not answer")
        server = self.pods.get(name)
        return None if server is None else PodIdentity(server.pod_uid, "127.0.0.1", server.container_id)

    async def dispatch(
        self, endpoint: SandboxEndpoint, dispatch_jws: str, body: bytes, timeout: float
    ) -> SandboxAnswer:
        """The Pod IP adapter, at the port where this test's server listens."""
        self.sent.append((endpoint.pod_name, body))
        server = self.pods.get(endpoint.pod_name)
        if server is None:
            raise SandboxUnreachable("no route to host", sent=False)
        return await PodIPSandbox(server.port, dial_seconds=2.0).dispatch(endpoint, dispatch_jws, body, timeout)

    def object(self, name: str) -> Object | None:
        """The Pod as the broker reads it."""
        server = self.pods.get(name)
        if server is None:
            return None
        run = server.run
        owner = {"apiVersion": "agentrun.dev/v1alpha1", "kind": "AgentRun", "name": "x", "uid": run, "controller": True}
        purpose = "verify" if "-v" in name[-4:] else "work"
        labels = {"agentrun.dev/run-uid": run, "agentrun.dev/purpose": purpose}
        meta = {"name": name, "namespace": NAMESPACE, "uid": server.pod_uid, "labels": labels}
        return {"metadata": {**meta, "ownerReferences": [owner]}}


# --- the broker ----------------------------------------------------------------------------------------------------


@dataclass
class Cluster:
    """The objects that the broker reads."""

    sandboxes: Sandboxes
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)

    def add(self, kind: Kind, name: str, **members: Any) -> Object:
        """Put an object there."""
        namespace = {} if kind is Kind.CLASS else {"namespace": NAMESPACE}
        meta = {"name": name, "uid": f"{kind.value}-{name}", **namespace, **members.pop("metadata", {})}
        self.objects[kind.value, name] = {"metadata": meta, **members}
        return self.objects[kind.value, name]

    async def get(self, kind: Kind, namespace: str, name: str, *, fresh: bool) -> Object | None:  # noqa: ARG002
        """View.get"""
        return self.sandboxes.object(name) if kind is Kind.POD else self.objects.get((kind.value, name))

    async def list(self, kind: Kind, namespace: str, *, fresh: bool) -> tuple[Object, ...]:  # noqa: ARG002
        """View.list"""
        return tuple(found for (which, _), found in self.objects.items() if which == kind.value)


@dataclass(frozen=True)
class RunningBroker:
    """Where a broker is, and a client of it."""

    client: BrokerClient
    url: str
    ca: str


@asynccontextmanager
async def broker(cluster: Cluster, gate_path: Path, keys: Keys) -> AsyncIterator[RunningBroker]:
    """The real broker over HTTPS."""
    redactor = Redactor()

    async def no_secret(_name: str) -> None:
        return None

    async def review(token: str, audience: str) -> Object:
        return {"authenticated": token == TOKEN, "audiences": [audience], "user": {"username": HARNESS}}

    gate, models = await Gate.open(gate_path), ModelCalls(Credentials(no_secret, redactor))
    service = Broker(cluster, gate, Signer(keys.current.kid, keys.current.key), models)
    api = Api(service, Callers(review, "agentrun-system"), json_logger("broker", redactor, io.StringIO()), Metrics())
    tls = tls_context(*server_certificate(keys, ("127.0.0.1",), datetime.now(UTC)))
    async with serving(api.application(), "127.0.0.1", 0, tls) as port:
        url, ca, token = f"https://127.0.0.1:{port}", fixed_text(keys.ca_pem), fixed_text(TOKEN)
        async with BrokerClient(url, ca=ca, token=token) as client:
            yield RunningBroker(client, url, keys.ca_pem)
    await models.close()
    await gate.close()


# --- the whole -----------------------------------------------------------------------------------------------------


@dataclass
class Kit:
    """Everything a test of the harness works with."""

    journal: Journal
    cluster: Cluster
    sandboxes: Sandboxes
    world: World

    async def create(
        self,
        made: Object,
        files: dict[str, bytes] | None = None,
        *,
        name: str = "run-1",
        grants: list[str] | None = None,
    ) -> str:
        """A run that is accepted and admitted; returns its UID. Without `grants` every tool is granted."""
        uid = f"uid-{name}"
        self._objects(made, name, uid, grants)
        tar = write(Workspace({path: Entry(data) for path, data in files.items()})) if files else None
        listed = [
            {"path": path, "executable": False, "digest": sha256_digest(data)} for path, data in (files or {}).items()
        ]
        given = canonical({"text": "Fix it.", "parameters": {}, "files": listed})
        raw = canonical(made)
        blobs = [Blob(sha256_digest(data), data) for data in (raw, given, tar) if data is not None]
        await self.journal.put_blobs(TENANT, blobs)
        first = RunCreated(
            tenant=TENANT, namespace=NAMESPACE, name=name, uid=uid, definition=DEFINITION,
            template_digest=sha256_digest(raw), input_digest=sha256_digest(given), requester=Actor("ann", "u1"),
            plan=plan_of(made, workspace=tar is not None), workspace=None if tar is None else sha256_digest(tar),
        )  # fmt: skip
        log = await RunLog.create(self.journal, wall_clock, first, "ann")
        await log.accept(RunAdmitted(), "admit")
        return uid

    def _objects(self, made: Object, name: str, uid: str, grants: list[str] | None) -> None:
        digest = sha256_digest(canonical(made))
        spec = {"definitionRef": {"name": DEFINITION}, "attribution": {"run": {"username": "ann", "uid": "u1"}}}
        self.cluster.add(Kind.RUN, name, metadata={"uid": uid}, spec=spec)
        self.cluster.add(Kind.DEFINITION, DEFINITION, spec={"className": "default", "template": made})
        labels = {"agentrun.dev/definition": DEFINITION}
        self.cluster.add(Kind.REVISION, revision_name(DEFINITION, digest), metadata={"labels": labels}, data=made)
        price = {"inputMicroUSDPerMTok": 0, "outputMicroUSDPerMTok": 0}
        models = [{"name": "scripted", "provider": "Scripted", "price": price}]
        self.cluster.add(Kind.CLASS, "default", spec={"models": models})
        names = [tool["name"] for tool in made["tools"]] if grants is None else grants
        if names:
            granted = [{"name": tool} for tool in names]
            self.cluster.add(Kind.GRANT, "tools", spec={"definitionName": DEFINITION, "tools": granted})

    async def state(self, run: str) -> State:
        """As the journal has it now."""
        return (await RunLog.load(self.journal, wall_clock, run)).state

    async def history(self, run: str) -> list[EventRecord]:
        """Every event."""
        return await self.journal.events(run)

    async def events(self, run: str, kind: type[Any]) -> list[Any]:
        """The bodies of one kind."""
        return [decode(record) for record in await self.history(run) if record.kind == kind.__name__]

    async def blob(self, digest: str) -> bytes:
        """Content by digest."""
        data = await self.journal.get_blob(TENANT, digest)
        assert data is not None, f"no content {digest}"
        return data

    async def accept(self, run: str, event: Any, key: str) -> None:
        """An accepted fact, as the operator records it."""
        log = await RunLog.load(self.journal, wall_clock, run)
        await log.accept(event, key)

    async def stop(self, run: str, mode: str) -> None:
        """A person stops the run: spec first, then the journal."""
        state = await self.state(run)
        self.cluster.objects[Kind.RUN.value, state.name]["spec"]["stop"] = {"mode": mode}
        await self.accept(run, StopRequested(mode, Actor("bob")), f"spec/2/stop-{mode}")

    async def until(self, run: str, holds: Callable[[State], bool], what: str) -> State:
        """Wait until the state is so, at most a minute."""
        async with asyncio.timeout(BOUND):
            while True:
                state = await self.state(run)
                if holds(state):
                    return state
                assert not state.terminal, f"ended before it was {what}: {state.outcome}"
                await asyncio.sleep(0.02)

    async def finished(self, run: str) -> State:
        """Wait for the end."""
        return await self.until(run, lambda state: state.terminal, "finished")

    async def operate(self) -> None:
        """What the operator does, over and over: Pods as the state wants them, and what is seen of them."""
        while True:
            for head in await self.journal.runs():
                await self.reconcile(head.key.run)
            await asyncio.sleep(0.02)

    async def reconcile(self, run: str) -> None:
        """One round for one run."""
        state = await self.state(run)
        number = wants_verify_pod(state)
        wanted = {f"arun-{state.name}-w1"} if wants_work_pod(state) else set[str]()
        wanted |= {f"arun-{state.name}-v{number}"} if number is not None else set[str]()
        for name in wanted - set(self.sandboxes.pods):
            await self.sandboxes.create(run, name)
        for name in [name for name in self.sandboxes.pods if name.startswith(f"arun-{state.name}-")]:
            if name in wanted:
                await self._report(run, state, name)
            elif state.terminal or state.stop is None or state.stop.mode == "Kill" or not state.flying:
                uid = self.sandboxes.pods[name].pod_uid
                await self.sandboxes.delete(name)
                await self.accept(run, SandboxGone(uid), f"pod/{uid}/gone")
        left = any(name.startswith(f"arun-{state.name}-") for name in self.sandboxes.pods)
        if state.stop is not None and not state.terminal and not state.flying and not left:
            await self.accept(run, Quiesced(), "quiesced")

    async def _report(self, run: str, state: State, name: str) -> None:
        server = self.sandboxes.pods[name]
        purpose = "verify" if "-v" in name[-4:] else "work"
        seen = next((pod for pod in state.pods if pod.uid == server.pod_uid), None)
        if seen is None or seen.container_id != server.container_id:
            started = SandboxStarted(purpose, name, server.pod_uid, "127.0.0.1", server.container_id)
            await self.accept(run, started, f"pod/{server.pod_uid}/started-{server.container}")


LIMITS = Limits(workers=10, lease=3.0, renew=0.5, poll=0.2, grace=5.0)


@asynccontextmanager
async def kit(folder: Path, *, operate: bool = True, limits: Limits = LIMITS) -> AsyncIterator[Kit]:
    """All of it on one folder, ended afterwards."""
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240
    async with AsyncExitStack() as stack:
        keys = new_keys(datetime.now(UTC))
        sandboxes = Sandboxes(folder / "pods", keys)
        stack.push_async_callback(sandboxes.close)
        cluster = Cluster(sandboxes)
        served = await stack.enter_async_context(broker(cluster, folder / "gate.db", keys))
        journal = await open_journal(f"sqlite:///{folder}/journal.db")
        stack.push_async_callback(journal.close)
        made = Kit(journal, cluster, sandboxes, World(journal, served.client, sandboxes, sandboxes, limits))
        if operate:
            stack.push_async_callback(_ended, asyncio.create_task(made.operate()))
        yield made


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@asynccontextmanager
async def working(made: Kit) -> AsyncIterator[asyncio.Event]:
    """A harness at work; it drains when the block ends, or when the event is set."""
    stop = asyncio.Event()
    task = asyncio.create_task(Worker(made.world).run(stop))
    try:
        yield stop
    finally:
        stop.set()
        await asyncio.wait_for(task, BOUND)
