"""The visible state: one total function of the state, so that no two places can disagree (R5)."""

from enum import StrEnum

from agentrun.core.schedule import lacking, next_steps
from agentrun.core.state import State


class RunState(StrEnum):
    """The eleven names of R5."""

    CREATED = "created"
    READY = "ready"
    RUNNING = "running"
    WAITING_MODEL = "waiting_model"
    WAITING_TOOL = "waiting_tool"
    WAITING_APPROVAL = "waiting_approval"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    NEEDS_RECONCILIATION = "needs_reconciliation"


def visible_state(state: State) -> RunState:
    """Terminal outcome > cancelling > needs_reconciliation > paused > waiting … > created (design 5)."""
    if state.outcome is not None:
        return RunState.COMPLETED if state.outcome.completed else RunState.FAILED
    if state.stop is not None and not state.milestones.quiescent:
        return RunState.CANCELLING
    if state.unresolved:
        return RunState.NEEDS_RECONCILIATION
    if state.paused or lacking(state):
        return RunState.PAUSED
    return _active_state(state)


def _active_state(state: State) -> RunState:
    kinds = {step.kind for step in state.flying}
    if "tool" in kinds:
        return RunState.WAITING_TOOL
    if "model" in kinds:
        return RunState.WAITING_MODEL
    if not state.admitted_at:
        return RunState.CREATED
    return RunState.READY if _idle(state) and not kinds else RunState.RUNNING


def _idle(state: State) -> bool:
    """A call is due at once and nobody has begun it; sandbox start, verification and back-off are `running`."""
    return any(step.kind in ("model", "tool") and not step.not_before for step in next_steps(state))


def visible_reason(state: State) -> str:
    """A CamelCase reason beside the state; empty where the state says it all."""
    if state.outcome is not None:
        return state.outcome.reason
    if state.stop is not None:
        return state.stop.mode
    if state.unresolved:
        return "OutcomeUnknown"
    if state.paused:
        return "Draining" if state.flying else "PausedByUser"
    return "BudgetExhausted" if lacking(state) else ""
