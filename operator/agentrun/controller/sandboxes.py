"""Making a run's Pods real, and turning what is seen of them into accepted facts. Level-triggered and idempotent."""

import datetime as dt
import re
from typing import Any

from agentrun.api.conditions import SandboxReadyReason
from agentrun.controller.birth_facts import BirthFacts, BrokerNotReady
from agentrun.controller.desired import desired_pods, may_delete
from agentrun.controller.names import RUN_UID_LABEL, pod_name
from agentrun.controller.pod import SandboxWanted, build_pod, build_policy
from agentrun.controller.pod_check import mutations
from agentrun.controller.pod_view import Life, PodView, look
from agentrun.controller.world import World, owned_by
from agentrun.core.events import SandboxGone, SandboxLost, SandboxRefused, SandboxStarted
from agentrun.core.state import State
from agentrun.journal.runlog import RunLog
from agentrun.kube import AlreadyExists, Conflict, Forbidden, Invalid, KubeClient, NotFound
from agentrun.kube.reading import member
from agentrun.kube.resources import PODS, POLICIES
from agentrun.settings import Settings, ToolServerMount

Object = dict[str, Any]
Trouble = tuple[SandboxReadyReason, str]
_PLACE = re.compile(r"-([wv])([0-9]+)$")
_PURPOSES = {"w": "work", "v": "verify"}


class Sandboxes:
    """The Pods of every run."""

    def __init__(self, kube: KubeClient, world: World, birth: BirthFacts, settings: Settings) -> None:
        self._kube = kube
        self._world = world
        self._birth = birth
        self._settings = settings

    async def sync(self, log: RunLog, template: Object, agent_class: Object | None) -> Trouble | None:
        """Facts first, then deletions, then creations; returns why Kubernetes refuses a Pod, if it does."""
        pods = self._world.pods_of(log.state.uid)
        await self._observe(log, pods)
        wanted = desired_pods(log.state)
        await self._delete_unwanted(log.state, pods, wanted)
        there = {(purpose(pod), number(pod)) for pod in pods}
        for want, count in wanted.items():
            if (want, count) not in there:
                trouble = await self._create(log, want, count, template, agent_class or {"spec": {}})
                if trouble is not None:
                    return trouble
        return None

    async def none_left(self, state: State) -> bool:
        """Proof from the API server, not the cache: no Pod is labelled, and none is named, as this run's.

        A label can be changed by anybody who may change Pods; the few names a run's Pods can have cannot.
        """
        items, _ = await self._kube.list(PODS, state.namespace, f"{RUN_UID_LABEL}={state.uid}")
        attempts = state.verify.attempt if state.verify is not None else 0
        for want, count in (("work", 1), *(("verify", attempt + 1) for attempt in range(attempts))):
            found = await self._kube.find(PODS, pod_name(state.name, state.uid, want, count), state.namespace)
            items += [found] if found is not None else []
        return not any(owned_by(pod, state.uid) for pod in items)

    # --- facts -----------------------------------------------------------------------------------------------------

    async def _observe(self, log: RunLog, pods: list[Object]) -> None:
        now = dt.datetime.now(dt.UTC)
        for pod in pods:
            if desired_pods(log.state).get(purpose(pod)) == number(pod):
                await self._observe_wanted(log, pod, look(pod, now))
        present = {pod["metadata"]["uid"] for pod in pods}
        for known in log.state.pods:
            if known.uid not in present:
                await self._missing(log, known.uid, known.purpose)

    async def _observe_wanted(self, log: RunLog, pod: Object, view: PodView) -> None:
        uid = pod["metadata"]["uid"]
        match view.life:
            case Life.RUNNING:
                await self._started(log, pod, view)
            case Life.REFUSED:
                await log.accept(SandboxRefused(uid, view.reason.value, view.message), f"pod/{uid}/refused")
            case Life.LOST | Life.GOING:
                await log.accept(SandboxLost(uid, view.reason.value, view.message), f"pod/{uid}/lost")
            case Life.COMING:
                return

    async def _started(self, log: RunLog, pod: Object, view: PodView) -> None:
        uid = pod["metadata"]["uid"]
        container = view.container_id.rpartition("/")[2]
        if any(known.uid == uid and known.container_id == view.container_id for known in log.state.pods):
            return
        started = SandboxStarted(
            purpose(pod), pod["metadata"]["name"], uid, view.ip, view.container_id, view.node, view.image_ids
        )
        await log.accept(started, f"pod/{uid}/started-{container[:12]}")

    async def _missing(self, log: RunLog, uid: str, what: str) -> None:
        if what in desired_pods(log.state):
            await log.accept(SandboxLost(uid, "SandboxLost", "the Pod was deleted"), f"pod/{uid}/lost")
        await log.accept(SandboxGone(uid), f"pod/{uid}/gone")

    # --- Pods ------------------------------------------------------------------------------------------------------

    async def _delete_unwanted(self, state: State, pods: list[Object], wanted: dict[str, int]) -> None:
        if not may_delete(state):
            return
        for pod in pods:
            meta = pod["metadata"]
            if wanted.get(purpose(pod)) == number(pod) or meta.get("deletionTimestamp"):
                continue
            try:
                await self._kube.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"])
            except (NotFound, Conflict):
                continue  # gone already, or another Pod of that name

    async def _create(
        self, log: RunLog, want: str, count: int, template: Object, agent_class: Object
    ) -> Trouble | None:
        try:
            wanted = await self._wanted(log.state, want, count, template, agent_class)
            pod = await self._ensure(wanted)
        except BrokerNotReady as error:
            return SandboxReadyReason.PENDING, str(error)
        except Forbidden as error:
            quota = "exceeded quota" in error.message
            return (SandboxReadyReason.QUOTA_EXCEEDED if quota else SandboxReadyReason.POLICY_DENIED), error.message[
                :900
            ]
        except Invalid as error:
            return SandboxReadyReason.POLICY_DENIED, error.message[:900]
        if pod is None:
            return SandboxReadyReason.PENDING, f"another Pod is named {wanted.name}; waiting until it is gone"
        changed = mutations(build_pod(wanted), pod)
        if changed:
            uid = pod["metadata"]["uid"]
            message = f"admission changed {', '.join(changed[:8])} of the sandbox Pod"
            await log.accept(SandboxRefused(uid, SandboxReadyReason.POD_MUTATED.value, message), f"pod/{uid}/refused")
            return None
        await self._kube.apply(
            POLICIES,
            build_policy(wanted, pod["metadata"]["uid"], self._settings.operator_namespace),
            manager="agentrun-operator",
        )
        return None

    async def _ensure(self, wanted: SandboxWanted) -> Object | None:
        """Create by its fixed name; one that is there is ours only if this very run owns it (C1, C6)."""
        body = build_pod(wanted)
        try:
            return await self._kube.create(PODS, body, wanted.namespace)
        except AlreadyExists:
            found = await self._kube.find(PODS, wanted.name, wanted.namespace)
        if found is None or not owned_by(found, wanted.run_uid) or found["metadata"].get("deletionTimestamp"):
            return None
        return found

    async def _wanted(
        self, state: State, want: str, count: int, template: Object, agent_class: Object
    ) -> SandboxWanted:
        spec = agent_class["spec"]
        tolerate = tuple(member(spec, "egress").get("tolerateOpen") or ())
        return SandboxWanted(
            namespace=state.namespace,
            run_name=state.name,
            run_uid=state.uid,
            purpose=want,
            number=count,
            sandbox=member(template, "sandbox"),
            plan=state.plan,
            keys=await self._birth.keys(),
            guard=await self._birth.targets(tolerate),
            tool_server_image=self._settings.tool_server_image,
            image_volume=self._settings.tool_server_mount is not ToolServerMount.COPY,
            host_users=self._settings.sandbox_host_users,
            scheduling=member(spec, "scheduling"),
        )


def purpose(pod: Object) -> str:
    """work or verify, from the Pod's name: it cannot be changed."""
    found = _PLACE.search(pod["metadata"]["name"])
    return _PURPOSES[found[1]] if found else ""


def number(pod: Object) -> int:
    """Number in the Pod's name."""
    found = _PLACE.search(pod["metadata"]["name"])
    return int(found[2]) if found else 0
