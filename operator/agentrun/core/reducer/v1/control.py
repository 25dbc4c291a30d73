"""People's acts and deadlines (R9)."""

from typing import assert_never

from msgspec.structs import replace

from agentrun.core.events import (
    ControlFact,
    DeadlinePassed,
    ModeChanged,
    Quiesced,
    RunAdmitted,
    RunDeleted,
    RunRefused,
    SteeringAdded,
    StopRequested,
)
from agentrun.core.reducer.v1.change import evidence, fail
from agentrun.core.schedule import lacking
from agentrun.core.state import Milestones, Outcome, State, Steer, Stop

_RANK = {"Deadline": 1, "Deleted": 2, "Cancel": 3, "Kill": 4}


def apply_control(state: State, event: ControlFact) -> State:
    """Fold one control fact into the state."""
    match event:
        case RunAdmitted():
            return _admitted(state, event)
        case RunRefused():
            return evidence(state) if state.admitted_at else fail(state, event.reason, event.message)
        case ModeChanged():
            return _mode(state, event)
        case StopRequested():
            return _stop(state, event.mode, event.actor.username, event.message)
        case SteeringAdded():
            steer = Steer(event.id, event.message, event.deliver_at)
            return replace(state, steering=(*state.steering, steer))
        case DeadlinePassed():
            return _deadline(state, event.name)
        case RunDeleted():
            return _stop(state, "Deleted", "", "the AgentRun was deleted")
        case Quiesced():
            return _quiesced(state)
        case _:
            assert_never(event)


def _admitted(state: State, event: RunAdmitted) -> State:
    if state.admitted_at:
        return evidence(state)
    return replace(state, admitted_at=state.at, wall_clock_deadline=event.wall_clock_deadline)


def _mode(state: State, event: ModeChanged) -> State:
    if event.generation < state.mode_generation:
        return evidence(state)  # last generation wins (C14)
    return replace(state, paused=event.paused, mode_generation=event.generation)


def _stop(state: State, mode: str, actor: str, message: str) -> State:
    """Recorded and acknowledged in one transaction: from here nothing new is scheduled."""
    if state.stop is not None and _RANK[mode] <= _RANK[state.stop.mode]:
        return evidence(state)
    milestones = state.milestones
    if state.stop is None:
        milestones = Milestones(requested=state.at, acknowledged=state.at)
    return replace(state, stop=Stop(mode, actor, message, state.at), milestones=milestones)


def _deadline(state: State, name: str) -> State:
    if name == "idle":
        limit = lacking(state)
        if limit is None and not state.paused:
            return evidence(state)
        return fail(
            state, "BudgetExhausted", f"nothing happened until the idle deadline; waiting for: {limit or 'resume'}"
        )
    return _stop(state, "Deadline", "", f"the run's {name} deadline has passed")


def _quiesced(state: State) -> State:
    if state.stop is None or state.flying:
        return evidence(state)
    milestones = replace(state.milestones, quiescent=state.at)
    return replace(state, milestones=milestones, pods=(), sandbox_ready=False)


def end_stopped(state: State) -> State:
    """A stopped run ends only after quiescence, and not while an effect is unknown (design 5)."""
    if state.stop is None or not state.milestones.quiescent or state.unresolved or state.terminal:
        return state
    match state.stop.mode:
        case "Kill":
            reason = "Killed"
        case "Deadline":
            reason = "BudgetExhausted"
        case _:
            reason = "Cancelled"
    by = f" by {state.stop.actor}" if state.stop.actor else ""
    message = f"{reason}{by}" + (f": {state.stop.message}" if state.stop.message else "")
    return replace(state, outcome=Outcome(completed=False, reason=reason, message=message, at=state.at))
