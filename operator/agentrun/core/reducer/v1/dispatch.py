"""Hand-over, dispatch, and attempts that ended without an answer."""

from typing import assert_never

from msgspec.structs import replace

from agentrun.core.events import DispatchResult, LeaseTaken, StepAbandoned, StepDispatched, StepFailed
from agentrun.core.reducer.v1.change import close, close_call, evidence, fail, reopen, repeatable, unknown, with_step
from agentrun.core.reducer.v1.wanted import wanted
from agentrun.core.schedule import worst_case
from agentrun.core.state import State, Step


def apply_dispatch(state: State, event: DispatchResult, fence: int) -> State:
    """Fold one event about an attempt into the state. `fence` is the event's own."""
    match event:
        case LeaseTaken():
            return _taken(state, fence)
        case StepDispatched():
            return _dispatched(state, event, fence)
        case StepFailed():
            return _failed(state, event)
        case StepAbandoned():
            return _abandoned(state, event)
        case _:
            assert_never(event)


def _taken(state: State, fence: int) -> State:
    """What an earlier owner had in flight has lost its waiter: repeat where that is safe, else say so."""
    for step in state.flying:
        if step.fence < fence:
            state = _orphaned(state, step)
    return state


def _orphaned(state: State, step: Step) -> State:
    call = state.call(step.id)
    if call is not None and not repeatable(state, call):
        return unknown(state, call)
    return close(state, step) if state.stop is not None else reopen(state, step)


def _dispatched(state: State, event: StepDispatched, fence: int) -> State:
    step = state.step(event.step)
    due = {command.id for command in wanted(state)}
    if step is None or step.phase != "open" or step.attempt != event.attempt or f"{step.id}#{step.attempt}" not in due:
        return evidence(state)
    held = replace(state, ledger=state.ledger.reserve(step.id, worst_case(state, step)))
    flying = replace(step, phase="flying", deadline=event.deadline, fence=fence, target=event.target)
    return _deliver_steering(with_step(held, flying), flying)


def _deliver_steering(state: State, step: Step) -> State:
    if step.kind != "model":
        return state
    steering = tuple(
        replace(steer, turn=state.turn) if not steer.turn and steer.deliver_at == "NextModelCall" else steer
        for steer in state.steering
    )
    return replace(state, steering=steering)


def in_flight(state: State, step_id: str, attempt: int) -> Step | None:
    """The step, if exactly this attempt of it is in flight: one completion per lineage (R3.4)."""
    step = state.step(step_id)
    return step if step is not None and step.flying and step.attempt == attempt else None


def _failed(state: State, event: StepFailed) -> State:
    step = in_flight(state, event.step, event.attempt)
    if step is None or step.kind in ("model", "tool"):
        return evidence(state)  # those have answers of their own kind
    if state.stop is not None:
        return close(state, step)
    if not event.next_attempt_at:
        reason = "SandboxLost" if event.error_class in ("SandboxLost", "SandboxReplaced") else "InternalError"
        return fail(state, reason, f"{step.id}: {event.error_class}: {event.message}")
    return reopen(state, step, not_before=event.next_attempt_at, counts=True)


def _abandoned(state: State, event: StepAbandoned) -> State:
    step = in_flight(state, event.step, event.attempt)
    if step is None:
        return evidence(state)
    call = state.call(step.id)
    if call is not None:
        return close_call(state, call, "Error") if repeatable(state, call) else unknown(state, call)
    return close(state, step) if state.stop is not None else reopen(state, step)
