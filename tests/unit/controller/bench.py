"""An operator's reconcile over a real journal and a real HTTP API server; the cache shows only what it is told to."""

import contextlib
import copy
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from tests.unit.controller.apiserver import ApiServer
from tests.unit.controller.objects import RUN_UID, agent_class, definition, run
from tests.unit.controller.pods import running

from agentrun.controller.birth_facts import BirthFacts
from agentrun.controller.reconcile import Reconciler, now_micros
from agentrun.controller.sandboxes import Sandboxes
from agentrun.controller.world import World
from agentrun.core.events import Event, EventRecord
from agentrun.core.state import State
from agentrun.journal import open_journal
from agentrun.journal.port import Journal
from agentrun.journal.runlog import RunLog
from agentrun.kube import KubeClient
from agentrun.settings import Settings

Object = dict[str, Any]
KEYS = '[{"kid": "k1", "publicKey": "cHVibGlj", "notAfter": 0}]'
TEAM = "/namespaces/team"
RUN_PATH = f"/apis/agentrun.dev/v1alpha1{TEAM}/agentruns/run-1"
WATCHED = ("agentruns", "agentdefinitions", "agentclasses", "controllerrevisions", "pods")


class Bench:
    """One namespace `team` with definition `fixer` and a run; `see()` brings the cache up to date."""

    def __init__(self, api: ApiServer, kube: KubeClient, journal: Journal) -> None:
        self.api = api
        self.kube = kube
        self.journal = journal
        self.world = World()
        self.restart()

    def restart(self) -> None:
        """A new operator process: nothing remembered but what is stored."""
        settings = Settings(tool_server_image="images.test/tool-server:1")
        birth = BirthFacts(self.kube, settings.operator_namespace)
        sandboxes = Sandboxes(self.kube, self.world, birth, settings)
        self.reconciler = Reconciler(self.kube, self.journal, self.world, sandboxes, now_micros, "c1")

    def see(self) -> None:
        """What watches would have shown by now."""
        for plural in WATCHED:
            self.world.replace(plural, copy.deepcopy(self.api.named(plural)))

    async def turn(self) -> float | None:
        """One pass over the cache as it is."""
        return await self.reconciler.reconcile(RUN_UID)

    async def turns(self, count: int = 3) -> None:
        """Passes, each over a fresh cache."""
        for _ in range(count):
            self.see()
            await self.turn()

    def run_spec(self, generation: int, **spec: Any) -> None:
        """The user changes the run."""
        found = self.api.objects[RUN_PATH]
        found["spec"] |= spec
        found["metadata"]["generation"] = generation

    def pod_runs(self) -> Object:
        """The one Pod comes up."""
        (found,) = self.pods()
        found["status"] = running()
        return found

    def pods(self) -> list[Object]:
        """Pods at the API server."""
        return self.api.named("pods")

    def status(self) -> Object:
        """As last written."""
        found: Object = self.api.objects[RUN_PATH].get("status", {})
        return found

    def conditions(self) -> dict[str, tuple[str, str]]:
        """Status and reason by type."""
        return {one["type"]: (one["status"], one["reason"]) for one in self.status()["conditions"]}

    async def state(self) -> State:
        """As the history tells it."""
        return (await RunLog.load(self.journal, now_micros, RUN_UID)).state

    async def history(self) -> list[EventRecord]:
        """Everything recorded."""
        return list(await self.journal.events(RUN_UID))

    async def happens(self, *events: Event) -> None:
        """Results, as if a harness had recorded them."""
        log = await RunLog.load(self.journal, now_micros, RUN_UID)
        for number, event in enumerate(events):
            await log.accept(event, f"test/{log.seq}/{number}")


@contextlib.asynccontextmanager
async def bench(api: ApiServer, kube: KubeClient, folder: Path) -> AsyncGenerator[Bench]:
    """Everything a run needs is there."""
    journal = await open_journal(f"sqlite://{folder / 'journal.db'}")
    api.put("/api/v1/namespaces/team", {"metadata": {"name": "team", "uid": "ns-1"}})
    keys = {"metadata": {"name": "agentrun-broker"}, "data": {"keys.json": KEYS}}
    api.put("/api/v1/namespaces/agentrun-system/configmaps/agentrun-broker", keys)
    api.put("/apis/agentrun.dev/v1alpha1/agentclasses/default", agent_class())
    api.put(f"/apis/agentrun.dev/v1alpha1{TEAM}/agentdefinitions/fixer", definition())
    api.put(RUN_PATH, run())
    made = Bench(api, kube, journal)
    made.see()
    try:
        yield made
    finally:
        await journal.close()
