"""The thirteen conditions of a run, from its state and what is seen of its Pod. Pure; each reason of a closed list."""

from enum import StrEnum
from typing import Any

import msgspec

from agentrun.api.conditions import (
    AcceptedReason,
    AdmittedReason,
    ApprovalRequiredReason,
    CancelAcknowledgedReason,
    CompleteReason,
    FailedReason,
    FinishedReason,
    NeedsReconciliationReason,
    PausedReason,
    QuiescentReason,
    ReconcilingReason,
    SandboxReadyReason,
    StalledReason,
)
from agentrun.api.conditions import ConditionType as Type
from agentrun.controller.intake import Waiting
from agentrun.controller.pod_view import Life, PodView
from agentrun.core.needs import wants_verify_pod, wants_work_pod
from agentrun.core.schedule import lacking
from agentrun.core.state import State

MESSAGE_LIMIT = 1000
REFUSALS = {reason.value for reason in AcceptedReason} & {reason.value for reason in FailedReason}


class Mark(msgspec.Struct, frozen=True):
    """A condition without its times. `status` None means Unknown."""

    type: Type
    status: bool | None
    reason: StrEnum
    message: str = ""


class Seen(msgspec.Struct, frozen=True):
    """What the operator sees beside the journal. `pods_gone`: a fresh list shows no Pod of the run."""

    pod: PodView | None = None
    pods_gone: bool = True
    trouble: tuple[SandboxReadyReason, str] | None = None  # Kubernetes refuses the Pod


def waiting_marks(waiting: Waiting) -> list[Mark]:
    """Of a run that has no history."""
    pending = waiting.reason is AcceptedReason.PENDING
    accepted = None if pending else False
    stalled = waiting.final
    return [
        Mark(Type.ACCEPTED, accepted, waiting.reason, waiting.message),
        Mark(Type.ADMITTED, False, AdmittedReason.NOT_ACCEPTED),
        Mark(Type.SANDBOX_READY, False, SandboxReadyReason.PENDING),
        Mark(Type.APPROVAL_REQUIRED, False, ApprovalRequiredReason.NOT_REQUIRED),
        Mark(Type.PAUSED, False, PausedReason.ACTIVE),
        Mark(Type.CANCEL_ACKNOWLEDGED, False, CancelAcknowledgedReason.NOT_REQUESTED),
        Mark(Type.QUIESCENT, True, QuiescentReason.STOPPED, "nothing was started"),
        Mark(Type.NEEDS_RECONCILIATION, False, NeedsReconciliationReason.NO_UNRESOLVED_EFFECTS),
        Mark(Type.COMPLETE, False, CompleteReason.NOT_FINISHED),
        Mark(Type.FAILED, False, FailedReason.NOT_FINISHED),
        Mark(Type.FINISHED, False, FinishedReason.NOT_FINISHED),
        Mark(Type.RECONCILING, not stalled, ReconcilingReason.BLOCKED if stalled else ReconcilingReason.PROGRESSING),
        Mark(Type.STALLED, stalled, StalledReason.BLOCKED if stalled else StalledReason.NOT_STALLED, waiting.message),
    ]


def stopped_marks(waiting: Waiting, mode: str, message: str) -> list[Mark]:
    """Of a run that was stopped while it waited: it never started, and never will."""
    reason = FailedReason.KILLED if mode == "Kill" else FailedReason.CANCELLED
    changed = [
        Mark(Type.ADMITTED, False, AdmittedReason.STOPPED),
        Mark(Type.PAUSED, False, PausedReason.STOPPING),
        Mark(Type.CANCEL_ACKNOWLEDGED, True, CancelAcknowledgedReason.ACKNOWLEDGED, message),
        Mark(Type.COMPLETE, False, CompleteReason.FAILED),
        Mark(Type.FAILED, True, reason, "stopped before it started"),
        Mark(Type.FINISHED, True, FinishedReason.FAILED, reason.value),
        Mark(Type.RECONCILING, False, ReconcilingReason.RECONCILED),
        Mark(Type.STALLED, True, StalledReason.FAILED, waiting.message),
    ]
    by_type = {mark.type: mark for mark in (*waiting_marks(waiting), *changed)}
    return list(by_type.values())


def replayed_marks(outcome: str, *, completed: bool) -> list[Mark]:
    """Of a run whose work was done before: shown, not run again (C34)."""
    message = f"the same work ran before and ended {outcome}; set spec.rerunPolicy to Always to run it again"
    return [
        Mark(Type.ACCEPTED, True, AcceptedReason.ALREADY_RAN, message),
        Mark(Type.ADMITTED, False, AdmittedReason.ALREADY_RAN),
        Mark(Type.SANDBOX_READY, False, SandboxReadyReason.NOT_NEEDED),
        Mark(Type.APPROVAL_REQUIRED, False, ApprovalRequiredReason.NOT_REQUIRED),
        Mark(Type.PAUSED, False, PausedReason.ACTIVE),
        Mark(Type.CANCEL_ACKNOWLEDGED, False, CancelAcknowledgedReason.NOT_REQUESTED),
        Mark(Type.QUIESCENT, True, QuiescentReason.STOPPED),
        Mark(Type.NEEDS_RECONCILIATION, False, NeedsReconciliationReason.NO_UNRESOLVED_EFFECTS),
        Mark(Type.COMPLETE, completed, CompleteReason.ALREADY_RAN),
        Mark(Type.FAILED, not completed, FailedReason.ALREADY_RAN),
        Mark(Type.FINISHED, True, FinishedReason.ALREADY_RAN, message),
        Mark(Type.RECONCILING, False, ReconcilingReason.RECONCILED),
        Mark(Type.STALLED, False, StalledReason.NOT_STALLED),
    ]


def run_marks(state: State, seen: Seen) -> list[Mark]:
    """Of a run that has a history."""
    return [
        _accepted(state),
        _admitted(state),
        _sandbox(state, seen),
        Mark(Type.APPROVAL_REQUIRED, False, ApprovalRequiredReason.NOT_REQUIRED),
        _paused(state),
        _acknowledged(state),
        _quiescent(state, seen),
        _reconciliation(state),
        *_ended(state),
        *_kstatus(state),
    ]


def _accepted(state: State) -> Mark:
    outcome = state.outcome
    if outcome is not None and not state.admitted_at and outcome.reason in REFUSALS:
        return Mark(Type.ACCEPTED, False, AcceptedReason(outcome.reason), outcome.message)
    return Mark(Type.ACCEPTED, True, AcceptedReason.ACCEPTED)


def _admitted(state: State) -> Mark:
    if state.outcome is not None and not state.admitted_at and state.outcome.reason in REFUSALS:
        return Mark(Type.ADMITTED, False, AdmittedReason.NOT_ACCEPTED)
    if state.admitted_at:
        return Mark(Type.ADMITTED, True, AdmittedReason.ADMITTED)
    if state.stop is not None:
        return Mark(Type.ADMITTED, False, AdmittedReason.STOPPED)
    return Mark(Type.ADMITTED, False, AdmittedReason.PENDING)


def _sandbox(state: State, seen: Seen) -> Mark:
    wanted = wants_work_pod(state) or wants_verify_pod(state) is not None
    if seen.trouble is not None and wanted:
        return Mark(Type.SANDBOX_READY, False, seen.trouble[0], seen.trouble[1])
    outcome = state.outcome
    if outcome is not None and outcome.reason in {reason.value for reason in SandboxReadyReason}:
        return Mark(Type.SANDBOX_READY, False, SandboxReadyReason(outcome.reason), outcome.message)
    if not state.plan.needs_sandbox and state.plan.verification is None:
        return Mark(Type.SANDBOX_READY, False, SandboxReadyReason.NOT_NEEDED)
    if not wanted:
        return Mark(Type.SANDBOX_READY, False, SandboxReadyReason.STOPPED)
    if seen.pod is None:
        return Mark(Type.SANDBOX_READY, False, SandboxReadyReason.PENDING)
    tolerated = (
        f"reachable, tolerated by the class: {', '.join(seen.pod.open_targets)}" if seen.pod.open_targets else ""
    )
    return Mark(Type.SANDBOX_READY, seen.pod.life is Life.RUNNING, seen.pod.reason, seen.pod.message or tolerated)


def _paused(state: State) -> Mark:
    if state.stop is not None or state.terminal:
        return Mark(Type.PAUSED, False, PausedReason.STOPPING if state.stop else PausedReason.ACTIVE)
    if state.paused and state.flying:
        return Mark(Type.PAUSED, False, PausedReason.DRAINING, f"{len(state.flying)} calls may still end")
    if state.paused:
        return Mark(Type.PAUSED, True, PausedReason.PAUSED_BY_USER)
    limit = lacking(state)
    if limit:
        return Mark(Type.PAUSED, True, PausedReason.BUDGET_EXHAUSTED, f"nothing is left of {limit}")
    return Mark(Type.PAUSED, False, PausedReason.ACTIVE)


def _acknowledged(state: State) -> Mark:
    if state.stop is None:
        return Mark(Type.CANCEL_ACKNOWLEDGED, False, CancelAcknowledgedReason.NOT_REQUESTED)
    return Mark(Type.CANCEL_ACKNOWLEDGED, True, CancelAcknowledgedReason.ACKNOWLEDGED, state.stop.message)


def _quiescent(state: State, seen: Seen) -> Mark:
    """True only on proof: nothing in flight, and no Pod of the run at the API server."""
    if state.milestones.quiescent or (state.terminal and seen.pods_gone):
        return Mark(Type.QUIESCENT, True, QuiescentReason.STOPPED)
    if state.stop is not None or state.terminal:
        return Mark(Type.QUIESCENT, False, QuiescentReason.STOPPING)
    return Mark(Type.QUIESCENT, False, QuiescentReason.ACTIVE)


def _reconciliation(state: State) -> Mark:
    if not state.unresolved:
        return Mark(Type.NEEDS_RECONCILIATION, False, NeedsReconciliationReason.NO_UNRESOLVED_EFFECTS)
    message = f"outcome unknown: {', '.join(state.unresolved[:16])}; find out outside what happened"
    return Mark(Type.NEEDS_RECONCILIATION, True, NeedsReconciliationReason.OUTCOME_UNKNOWN, message)


def _ended(state: State) -> list[Mark]:
    outcome = state.outcome
    if outcome is None:
        return [
            Mark(Type.COMPLETE, False, CompleteReason.NOT_FINISHED),
            Mark(Type.FAILED, False, FailedReason.NOT_FINISHED),
            Mark(Type.FINISHED, False, FinishedReason.NOT_FINISHED),
        ]
    if outcome.completed:
        return [
            Mark(Type.COMPLETE, True, CompleteReason(outcome.reason), outcome.message),
            Mark(Type.FAILED, False, FailedReason.COMPLETED),
            Mark(Type.FINISHED, True, FinishedReason.COMPLETED),
        ]
    return [
        Mark(Type.COMPLETE, False, CompleteReason.FAILED),
        Mark(Type.FAILED, True, FailedReason(outcome.reason), outcome.message),
        Mark(Type.FINISHED, True, FinishedReason.FAILED, outcome.reason),
    ]


def _kstatus(state: State) -> list[Mark]:
    """An admitted run is reconciled, as a started Job is: hours of work must not time out a pipeline."""
    progressing = not state.admitted_at and not state.terminal
    reason = ReconcilingReason.PROGRESSING if progressing else ReconcilingReason.RECONCILED
    failed = state.outcome is not None and not state.outcome.completed
    blocked = bool(state.unresolved)
    stalled = StalledReason.FAILED if failed else StalledReason.BLOCKED if blocked else StalledReason.NOT_STALLED
    message = state.outcome.message if state.outcome is not None and failed else ""
    return [Mark(Type.RECONCILING, progressing, reason), Mark(Type.STALLED, failed or blocked, stalled, message)]


def render(marks: list[Mark], generation: int, before: list[dict[str, Any]], now: str) -> list[dict[str, Any]]:
    """As the API shows them: the time moves only when the status does."""
    old = {condition["type"]: condition for condition in before}
    names = {True: "True", False: "False", None: "Unknown"}
    rendered: list[dict[str, Any]] = []
    for mark in marks:
        was = old.get(mark.type.value, {})
        status = names[mark.status]
        rendered.append(
            {
                "type": mark.type.value,
                "status": status,
                "observedGeneration": generation,
                "lastTransitionTime": was["lastTransitionTime"] if was.get("status") == status else now,
                "reason": mark.reason.value,
                "message": mark.message[:MESSAGE_LIMIT],
            }
        )
    return rendered
