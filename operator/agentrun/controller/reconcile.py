"""One run, from what people want and what is seen to what is recorded and shown. Every pass does all of it."""

import contextlib
import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import msgspec

from agentrun.controller.conditions import REFUSALS, Mark, Seen, replayed_marks, run_marks, stopped_marks, waiting_marks
from agentrun.controller.definitions import InvalidTemplate, ensure_revision
from agentrun.controller.inputs import Frozen, freeze
from agentrun.controller.intake import Intake, Waiting, judge
from agentrun.controller.names import DENY_POLICY, MANAGER, revision_name
from agentrun.controller.pod_view import Life, look
from agentrun.controller.sandboxes import Sandboxes, purpose
from agentrun.controller.spec_facts import actor, spec_facts
from agentrun.controller.standing import standing_objects
from agentrun.controller.status import JournalHead, iso, pending_status, run_status, stopped_status
from agentrun.controller.status_writer import StatusWriter
from agentrun.controller.world import World
from agentrun.core.deadlines import idle_deadline, wall_clock_deadline
from agentrun.core.digest import canonical, sha256_digest
from agentrun.core.events import DeadlinePassed, Quiesced, RunAdmitted, RunCreated, RunDeleted, RunRefused
from agentrun.core.ids import Tenant
from agentrun.core.reducer import CURRENT_VERSION
from agentrun.core.state import State
from agentrun.journal.port import Blob, Journal, RunHead, RunNotFound
from agentrun.journal.runlog import RunLog
from agentrun.kube import KubeClient
from agentrun.kube.reading import member, members
from agentrun.kube.resources import NAMESPACES, POLICIES, SERVICE_ACCOUNTS

Object = dict[str, Any]
TROUBLE_SECONDS = 3.0
PROGRESS_SECONDS = 10.0
NOT_INHERITED = {"Cancelled", "Killed"}
Clock = Callable[[], int]


class Reconciler:
    """Everything `reconcile` needs; one per operator."""

    def __init__(
        self, kube: KubeClient, journal: Journal, world: World, sandboxes: Sandboxes, clock: Clock, cluster: str
    ) -> None:
        self._kube = kube
        self._journal = journal
        self._world = world
        self._sandboxes = sandboxes
        self._clock = clock
        self._cluster = cluster
        self._writer = StatusWriter(kube)
        self._logs: dict[str, RunLog] = {}
        self._templates: dict[str, Object] = {}
        self._standing: set[str] = set()
        self.epoch = 0

    # --- entry -----------------------------------------------------------------------------------------------------

    async def reconcile(self, uid: str) -> float | None:
        """One pass; returns seconds after which to look again, None to wait for a change."""
        run = self._world.runs.uid(uid)
        if run is None:
            await self._deleted(uid)
            return None
        log = await self._log(uid)
        if log is None:
            return await self._take_in(run)
        return await self._drive(run, log)

    def shrink(self, uid: str) -> None:
        """Forget what is kept of a run that is over; it is loaded again if somebody asks."""
        self._logs.pop(uid, None)
        self._templates.pop(uid, None)

    # --- a run that has no history ---------------------------------------------------------------------------------

    async def _take_in(self, run: Object) -> float | None:
        tenant = await self._tenant(run["metadata"]["namespace"])
        await self._ensure_standing(run["metadata"]["namespace"], tenant)
        judged = await self._judge(run)
        if isinstance(judged, Waiting):
            return await self._show_waiting(run, judged)
        frozen = await freeze(run, tenant, self._kube, self._journal)
        if isinstance(frozen, Waiting):
            await self._show_waiting(run, frozen)
            return TROUBLE_SECONDS  # ConfigMaps are not watched
        before = await self._ran_before(run, judged, tenant, frozen)
        if before is not None:
            return await self._show_replayed(run, before)
        log = await self._create(run, judged, tenant, frozen)
        self._logs[run["metadata"]["uid"]] = log
        refusal = judged.refusal or frozen.refusal
        if refusal is not None:
            await log.accept(RunRefused(refusal.reason.value, refusal.message), "refused")
        return await self._drive(run, log)

    async def _judge(self, run: Object) -> Intake | Waiting:
        meta, ref = run["metadata"], run["spec"]["definitionRef"]
        definition = self._world.kind("agentdefinitions").name(meta["namespace"], ref["name"])
        agent_class, revision = None, None
        if definition is not None:
            class_name = definition["spec"].get("className", "default")
            agent_class = self._world.kind("agentclasses").name("", class_name)
            with contextlib.suppress(InvalidTemplate):  # judged, and said, below
                revision = await self._revision(definition, ref.get("revision"))
        return judge(run, definition, agent_class, revision)

    async def _revision(self, definition: Object, wanted: str | None) -> Object | None:
        meta, revisions = definition["metadata"], self._world.kind("controllerrevisions")
        if wanted is None:
            digest = await ensure_revision(self._kube, definition)
            from agentrun.controller.definitions import build_revision  # noqa: PLC0415

            name = revision_name(meta["name"], digest)
            return revisions.name(meta["namespace"], name) or build_revision(definition, digest)
        name = revision_name(meta["name"], wanted) if wanted.startswith("sha256:") else wanted
        return revisions.name(meta["namespace"], name)

    async def _ran_before(self, run: Object, intake: Intake, tenant: Tenant, frozen: Frozen) -> RunHead | None:
        if run["spec"].get("rerunPolicy") == "Always":
            return None
        name = run["metadata"]["name"]
        before = await self._journal.finished_before(tenant, name, intake.template_digest, frozen.digest)
        return before if before is not None and before.outcome not in NOT_INHERITED | REFUSALS else None

    async def _create(self, run: Object, intake: Intake, tenant: Tenant, frozen: Frozen) -> RunLog:
        meta = run["metadata"]
        template = canonical(intake.template)
        await self._journal.put_blobs(tenant, [Blob(sha256_digest(template), template), *frozen.blobs])
        requester = actor(run["spec"], "run")
        created = RunCreated(
            tenant=tenant,
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            definition=run["spec"]["definitionRef"]["name"],
            template_digest=intake.template_digest,
            input_digest=frozen.digest,
            requester=requester,
            plan=intake.plan,
            workspace=frozen.workspace,
            reducer_version=CURRENT_VERSION,
        )
        return await RunLog.create(self._journal, self._clock, created, requester.username)

    async def _show_waiting(self, run: Object, waiting: Waiting) -> float | None:
        stop = member(run["spec"], "stop")
        mode: str = stop.get("mode", "")
        if mode:
            marks = stopped_marks(waiting, mode, stop.get("message", ""))
            return await self._show(
                run, lambda before: stopped_status(_generation(run), marks, mode, before, self._clock())
            )
        return await self._show(
            run, lambda before: pending_status(_generation(run), waiting_marks(waiting), before, self._clock())
        )

    async def _show_replayed(self, run: Object, before: RunHead) -> float | None:
        completed = before.state == "completed"
        marks = replayed_marks(before.outcome or before.state, completed=completed)

        def build(old: Object) -> Object:
            status = pending_status(_generation(run), marks, old, self._clock())
            replayed = {
                "runUID": before.key.run,
                "finishedAt": iso(before.updated_at),
                "requester": before.key.requester,
            }
            return {**status, "state": before.state, "reason": "AlreadyRan", "replayedFrom": replayed}

        return await self._show(run, build)

    # --- a run that has one ----------------------------------------------------------------------------------------

    async def _drive(self, run: Object, log: RunLog) -> float | None:
        await log.refresh()
        if not log.state.terminal:
            await self._facts(run, log)
        template = await self._template(log.state)
        agent_class = self._class_of(run)
        trouble = await self._sandboxes.sync(log, template, agent_class)
        gone = not self._world.pods_of(log.state.uid)
        if await self._may_be_quiet(log.state):
            await log.accept(Quiesced(), "quiesced")
        seen = Seen(self._seen_pod(log.state), gone, trouble)
        wait = await self._show_run(run, log, run_marks(log.state, seen), seen)
        if log.state.terminal and gone:
            self.shrink(log.state.uid)
        return _soonest(wait, self._next_look(log.state, trouble is not None, seen))

    async def _facts(self, run: Object, log: RunLog) -> None:
        state = log.state
        if not state.admitted_at and state.stop is None and not run["spec"].get("stop"):
            seconds = state.plan.budget.wall_clock_seconds
            deadline = self._clock() + seconds * 1_000_000 if seconds else 0
            await log.accept(RunAdmitted(deadline), "admit")
        digests = await self._steering_blobs(run, state)
        for fact, key in spec_facts(run, log.state, digests):
            await log.accept(fact, key)
        if 0 < wall_clock_deadline(log.state) <= self._clock():
            await log.accept(DeadlinePassed("wallClock"), "deadline/wallClock")
        if 0 < idle_deadline(log.state) <= self._clock():
            # One for each wait: a run that was resumed and waits again has another.
            await log.accept(DeadlinePassed("idle"), f"deadline/idle-{log.seq}")

    async def _steering_blobs(self, run: Object, state: State) -> dict[str, str]:
        known = {steer.id for steer in state.steering}
        new = [item for item in members(run["spec"], "steering") if item["id"] not in known]
        blobs = {item["id"]: item["message"].encode() for item in new}
        if blobs:
            kept = [Blob(sha256_digest(data), data) for data in blobs.values()]
            await self._journal.put_blobs(state.tenant, kept)
        return {name: sha256_digest(data) for name, data in blobs.items()}

    async def _may_be_quiet(self, state: State) -> bool:
        if state.stop is None or state.flying or state.milestones.quiescent or state.terminal:
            return False
        return not self._world.pods_of(state.uid) and await self._sandboxes.none_left(state)

    def _seen_pod(self, state: State) -> Any:
        pods = self._world.pods_of(state.uid)
        wanted = "verify" if state.verify is not None else "work"
        found = [pod for pod in pods if purpose(pod) == wanted]
        return look(found[-1], dt.datetime.now(dt.UTC)) if found else None

    def _next_look(self, state: State, troubled: bool, seen: Seen) -> float | None:  # noqa: FBT001
        waits = [TROUBLE_SECONDS] if troubled else []
        if seen.pod is not None and seen.pod.life is Life.COMING:
            waits.append(PROGRESS_SECONDS)
        deadlines = filter(None, (wall_clock_deadline(state), idle_deadline(state)))
        waits += [max(0.05, (deadline - self._clock()) / 1_000_000) for deadline in deadlines]
        if state.stop is not None and not state.terminal:
            waits.append(1.0)
        return min(waits, default=None)

    async def _show_run(self, run: Object, log: RunLog, marks: list[Mark], seen: Seen) -> float | None:
        head = JournalHead(self.epoch, log.fence, log.seq, log.hash)

        def build(before: Object) -> Object:
            return run_status(log.state, head, marks, seen, _generation(run), before, self._clock())

        return await self._show(run, build)

    async def _show(self, run: Object, build: Callable[[Object], Object]) -> float | None:
        before = self._writer.last(run["metadata"]["uid"], member(run, "status"))
        return await self._writer.write(run, build(before))

    # --- what is kept ----------------------------------------------------------------------------------------------

    async def _log(self, uid: str) -> RunLog | None:
        log = self._logs.get(uid)
        if log is None:
            try:
                log = await RunLog.load(self._journal, self._clock, uid)
            except RunNotFound:
                return None
            self._logs[uid] = log
        return log

    async def _template(self, state: State) -> Object:
        if state.uid not in self._templates:
            data = await self._journal.get_blob(state.tenant, state.template_digest)
            self._templates[state.uid] = msgspec.json.decode(data) if data else {}
        return self._templates[state.uid]

    def _class_of(self, run: Object) -> Object | None:
        meta, ref = run["metadata"], run["spec"]["definitionRef"]
        definition = self._world.kind("agentdefinitions").name(meta["namespace"], ref["name"])
        class_name = definition["spec"].get("className", "default") if definition else "default"
        return self._world.kind("agentclasses").name("", class_name)

    async def _tenant(self, namespace: str) -> Tenant:
        """Asked anew for each run: a namespace made again under its old name is another tenant."""
        found = await self._kube.get(NAMESPACES, namespace)
        return Tenant(self._cluster, str(found["metadata"]["uid"]))

    async def _ensure_standing(self, namespace: str, tenant: Tenant) -> None:
        """Made once; the default-deny is looked for before each run, whoever may have taken it away."""
        if tenant.key in self._standing and await self._kube.find(POLICIES, DENY_POLICY, namespace) is not None:
            return
        for found in standing_objects(namespace):
            resource = POLICIES if found["kind"] == "NetworkPolicy" else SERVICE_ACCOUNTS
            await self._kube.apply(resource, found, manager=MANAGER)
        self._standing.add(tenant.key)

    async def _deleted(self, uid: str) -> None:
        """The object is gone: its Pods go by owner references; the history says so."""
        self._writer.forget(uid)
        log = await self._log(uid)
        if log is None or log.state.terminal:
            self.shrink(uid)
            return
        await log.refresh()
        await log.accept(RunDeleted(), "deleted")
        if await self._may_be_quiet(log.state):
            await log.accept(Quiesced(), "quiesced")
            self.shrink(uid)


def _generation(run: Object) -> int:
    return int(run["metadata"].get("generation", 1))


def _soonest(*waits: float | None) -> float | None:
    return min((wait for wait in waits if wait is not None), default=None)


def now_micros() -> int:
    """Microseconds UTC."""
    return time.time_ns() // 1000
