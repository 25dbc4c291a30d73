"""What a sandbox Pod says of itself, read from its status: phase of its life, and why it does not go on."""

import datetime as dt
from enum import StrEnum
from typing import Any

import msgspec

from agentrun.api.conditions import SandboxReadyReason as Reason
from agentrun.kube.reading import member, members

Object = dict[str, Any]
_PULL_ERRORS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_CONFIG_ERRORS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


class Life(StrEnum):
    """Where a Pod is."""

    COMING = "coming"
    RUNNING = "running"
    REFUSED = "refused"  # it will never serve: the guard said no, or its configuration is impossible
    LOST = "lost"  # failed, evicted, or on a node that is dead
    GOING = "going"  # being deleted


class PodView(msgspec.Struct, frozen=True):
    """One look at a Pod."""

    life: Life
    reason: Reason
    message: str = ""
    ip: str = ""
    container_id: str = ""
    node: str = ""
    image_ids: tuple[str, ...] = ()
    open_targets: tuple[str, ...] = ()


class GuardReport(msgspec.Struct, frozen=True, rename="camel"):
    """The guard's termination message."""

    ok: bool = False
    open: tuple[str, ...] = ()
    tolerated: tuple[str, ...] = ()
    allowed_failed: tuple[str, ...] = ()
    message: str = ""


def look(pod: Object, now: dt.datetime) -> PodView:
    """Total over every Pod the API server may show."""
    if pod["metadata"].get("deletionTimestamp"):
        return _going(pod)
    status = member(pod, "status")
    if status.get("phase") in ("Failed", "Succeeded") or _disrupted(status):
        why = status.get("reason") or _disrupted(status) or "Failed"
        return PodView(Life.LOST, Reason.SANDBOX_LOST, f"{why}: {status.get('message', '')}".strip(": "))
    guard = _guard(status)
    if guard is not None and not guard.ok:
        return PodView(Life.REFUSED, Reason.EGRESS_NOT_ENFORCED, _guard_message(guard))
    return _running(pod, guard) or _coming(pod, now)


def _going(pod: Object) -> PodView:
    return PodView(Life.GOING, Reason.STOPPED, "the Pod is being deleted", node=pod["spec"].get("nodeName", ""))


def _disrupted(status: Object) -> str:
    for condition in members(status, "conditions"):
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            return str(condition.get("reason", "DisruptionTarget"))
    return ""


def _guard(status: Object) -> GuardReport | None:
    for state in members(status, "initContainerStatuses"):
        ended = member(state, "state").get("terminated") or member(state, "lastState").get("terminated")
        if state["name"] == "guard" and ended:
            return _report(ended)
    return None


def _report(ended: Object) -> GuardReport:
    try:
        report = msgspec.json.decode(str(ended.get("message", "")), type=GuardReport)
    except msgspec.MsgspecError:
        return GuardReport(ok=False, open=(f"no report: exit code {ended.get('exitCode')}",))
    return report if ended.get("exitCode") == 0 else msgspec.structs.replace(report, ok=False)


def _guard_message(guard: GuardReport) -> str:
    if not guard.open and not guard.allowed_failed and guard.message:
        return f"the guard could not do its work: {guard.message}"[:1000]
    parts: list[str] = []
    if guard.open:
        parts.append(f"reachable although nothing allows it: {', '.join(guard.open[:8])}")
    if guard.allowed_failed:
        parts.append(f"allowed but not reachable: {', '.join(guard.allowed_failed[:8])}")
    fix = "check that the network plugin enforces NetworkPolicy, or tolerate it in the AgentClass (egress.tolerateOpen)"
    return f"{'; '.join(parts) or 'the guard failed'}; {fix}"


def _running(pod: Object, guard: GuardReport | None) -> PodView | None:
    status = member(pod, "status")
    for state in members(status, "containerStatuses"):
        if state["name"] == "sandbox" and member(state, "state").get("running") and status.get("podIP") and guard:
            images = tuple(s.get("imageID", "") for s in status["containerStatuses"])
            return PodView(
                Life.RUNNING, Reason.READY, "", status["podIP"], state.get("containerID", ""),
                pod["spec"].get("nodeName", ""), images, guard.tolerated,
            )  # fmt: skip
    return None


def _coming(pod: Object, now: dt.datetime) -> PodView:
    status = member(pod, "status")
    states = members(status, "initContainerStatuses") + members(status, "containerStatuses")
    for state in states:
        waiting = member(member(state, "state"), "waiting")
        found = _waiting(state, waiting)
        if found is not None:
            return found
    seconds = _age(pod, now)
    if not pod["spec"].get("nodeName"):
        return _unscheduled(status, seconds)
    reason = Reason.PULLING if _may_be_pulling(status) else Reason.STARTING
    what = "pulling images" if reason is Reason.PULLING else "starting"
    return PodView(Life.COMING, reason, f"{what}, {seconds} s", node=pod["spec"]["nodeName"])


def _waiting(state: Object, waiting: Object) -> PodView | None:
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _PULL_ERRORS:
        return PodView(Life.COMING, Reason.IMAGE_PULL_FAILED, f"{state['name']}: {reason}: {message}"[:1000])
    if reason in _CONFIG_ERRORS:
        return PodView(Life.COMING, Reason.STARTING, f"{state['name']}: {reason}: {message}"[:1000])
    ended = member(member(state, "lastState"), "terminated")
    if ended and state["name"] == "sandbox":
        why = f"{ended.get('reason', 'ended')}, exit code {ended.get('exitCode')}"
        return PodView(Life.COMING, Reason.STARTING, f"the sandbox ended ({why}) and is started again")
    return None


def _may_be_pulling(status: Object) -> bool:
    """No container of the Pod has run yet and its node has taken it: until the kubelet says more, images come."""
    states = members(status, "initContainerStatuses") + members(status, "containerStatuses")
    return all("running" not in member(s, "state") for s in states)


def _unscheduled(status: Object, seconds: int) -> PodView:
    for condition in members(status, "conditions"):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return PodView(Life.COMING, Reason.UNSCHEDULABLE, str(condition.get("message", ""))[:1000])
    return PodView(Life.COMING, Reason.PENDING, f"waiting for a node, {seconds} s")


def _age(pod: Object, now: dt.datetime) -> int:
    made = pod["metadata"].get("creationTimestamp")
    return max(0, int((now - dt.datetime.fromisoformat(made)).total_seconds())) if made else 0
