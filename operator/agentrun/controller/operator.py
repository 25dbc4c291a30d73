"""`run_operator`: watches into the cache, the cache into the queue, the queue into `reconcile` (design 2)."""

import asyncio
import contextlib
import time
from collections.abc import Hashable
from typing import Any

import structlog

from agentrun.controller.birth_facts import BirthFacts
from agentrun.controller.definitions import reconcile_definition
from agentrun.controller.preflight import check_api, cluster_id
from agentrun.controller.queue import WorkQueue
from agentrun.controller.reconcile import Reconciler, now_micros
from agentrun.controller.sandboxes import Sandboxes
from agentrun.controller.watch import SELECTED, Watcher
from agentrun.controller.world import World, run_key_of
from agentrun.core.errors import AgentrunError
from agentrun.journal.port import Journal
from agentrun.kube import KubeClient, KubeError
from agentrun.kube.reading import member
from agentrun.kube.resources import CLASSES, DEFINITIONS, NODES, PODS, REVISIONS, RUNS, Resource
from agentrun.settings import Settings

Object = dict[str, Any]
RELIST_SECONDS = 600.0
LISTED: dict[str, Resource] = {
    "agentclasses": CLASSES,
    "agentdefinitions": DEFINITIONS,
    "controllerrevisions": REVISIONS,
    "pods": PODS,
    "nodes": NODES,
    "agentruns": RUNS,
}
_log = structlog.get_logger()


class WatchesEnded(AgentrunError):
    """The watch engine has ended by itself: the process starts anew rather than acting on a stale cache."""


class Operator:
    """One operator."""

    def __init__(self, kube: KubeClient, journal: Journal, settings: Settings, cluster: str) -> None:
        self._kube = kube
        self._journal = journal
        self._settings = settings
        self.world = World()
        birth = BirthFacts(kube, settings.operator_namespace)
        sandboxes = Sandboxes(kube, self.world, birth, settings)
        self._reconciler = Reconciler(kube, journal, self.world, sandboxes, now_micros, cluster)
        self._queue = WorkQueue(self._work, _told)
        self._lag_at = time.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`, or until a part of it ends; raises what ended it."""
        self._reconciler.epoch = await self._journal.epoch()
        await self._relist()
        watcher = Watcher(self._kube.access, self._settings.watch_namespaces, self._take)
        watcher.start()
        tasks = [
            asyncio.create_task(self._queue.run()),
            asyncio.create_task(self._follow_journal()),
            asyncio.create_task(self._relist_often()),
            asyncio.create_task(_must_not_end(watcher)),
            asyncio.create_task(stop.wait()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await watcher.stop()

    # --- what wakes it ---------------------------------------------------------------------------------------------

    def _take(self, plural: str, event: str | None, found: Object) -> None:
        self.world.take(plural, event, found)
        run = run_key_of(plural, found)
        if run:
            self._queue.add(("run", run))
        elif plural == "agentdefinitions":
            self._queue.add(("definition", found["metadata"]["uid"]))
            self._wake_waiting(found["metadata"]["namespace"])
        elif plural == "agentclasses":
            for definition in self.world.kind("agentdefinitions").items():
                self._queue.add(("definition", definition["metadata"]["uid"]))
            self._wake_waiting(None)
        elif plural == "controllerrevisions":
            self._wake_waiting(found["metadata"]["namespace"])

    def _wake_waiting(self, namespace: str | None) -> None:
        """Runs without a history may go on now."""
        for run in self.world.runs.items():
            if namespace in (None, run["metadata"]["namespace"]) and not member(run, "status").get("head"):
                self._queue.add(("run", run["metadata"]["uid"]))

    async def _follow_journal(self) -> None:
        cursor = 0
        while True:
            try:
                cursor, changed = await self._journal.changed_since(cursor)
            except AgentrunError as error:
                _log.warning("journal_unavailable", error=str(error))
                await asyncio.sleep(1)
                continue
            for uid in changed:
                self._queue.add(("run", uid))
            await self._journal.wait_change(1.0)

    async def _relist_often(self) -> None:
        while True:
            await asyncio.sleep(RELIST_SECONDS)
            with contextlib.suppress(KubeError):
                await self._relist()

    async def _relist(self) -> None:
        """A full list of everything: what is missing from it is gone, whatever the watches missed."""
        for plural, resource in LISTED.items():
            items: list[Object] = []
            self.world.begin_list(plural)
            for namespace in self._settings.watch_namespaces or (None,):
                items += (await self._kube.list(resource, namespace, SELECTED.get(plural, "")))[0]
            for lost in self.world.replace(plural, items):
                self._wake(plural, lost)
            for found in items:
                self._wake(plural, found)
        for head in await self._journal.runs(live_only=True, limit=100_000):
            self._queue.add(("run", head.key.run))

    def _wake(self, plural: str, found: Object) -> None:
        run = run_key_of(plural, found)
        if run:
            self._queue.add(("run", run))
        elif plural == "agentdefinitions":
            self._queue.add(("definition", found["metadata"]["uid"]))

    # --- work ------------------------------------------------------------------------------------------------------

    async def _work(self, key: Hashable) -> float | None:
        match key:
            case ("run", str(uid)):
                return await self._reconciler.reconcile(uid)
            case ("definition", str(uid)):
                await self._definition(uid)
                return None
            case _:
                raise AssertionError(key)

    async def _definition(self, uid: str) -> None:
        definition = self.world.kind("agentdefinitions").uid(uid)
        if definition is None:
            return
        class_name = definition["spec"].get("className", "default")
        found = self.world.kind("agentclasses").name("", class_name) is not None
        await reconcile_definition(self._kube, definition, class_found=found)


def _told(key: Hashable, error: BaseException, delay: float) -> None:
    _log.warning("reconcile_failed", key=str(key), error=f"{type(error).__name__}: {error}", retry_in=round(delay, 2))


async def _must_not_end(watcher: Watcher) -> None:
    await watcher.ended()
    raise WatchesEnded("the watches have ended")


async def run_operator(
    settings: Settings, journal: Journal, stop: asyncio.Event, kube: KubeClient | None = None
) -> None:
    """Preflight, then work until `stop`. Raises NotInstalled, NoCluster, WatchesEnded."""
    kube = kube or await KubeClient.connect(settings.kubeconfig)
    await check_api(kube)
    await Operator(kube, journal, settings, await cluster_id(kube)).run(stop)
