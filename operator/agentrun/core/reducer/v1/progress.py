"""What follows from what is done: next turn, last word, workspace, verification, outcome."""

from msgspec.structs import replace

from agentrun.core.ids import get_step, model_step, verify_step
from agentrun.core.needs import needs_get
from agentrun.core.reducer.v1.control import end_stopped
from agentrun.core.state import Outcome, State, Step


def advance(state: State) -> State:
    """Go on as far as what is recorded allows; pure consequence, no new fact."""
    state = end_stopped(state)
    if state.terminal or not state.admitted_at or state.stop is not None or state.unresolved:
        return state
    if state.model is None:
        return _next_turn(state)
    if state.final is not None:
        return _finish(state)
    turn_over = state.model.phase == "closed" and all(call.step.phase == "closed" for call in state.calls)
    return _next_turn(state) if turn_over else state


def _next_turn(state: State) -> State:
    turn = state.turn + 1
    return replace(state, turn=turn, model=Step(model_step(turn), "model"), calls=(), final=None)


def _finish(state: State) -> State:
    if any(not steer.turn for steer in state.steering):
        return _steered_on(state)
    if needs_get(state) and state.get is None:
        return replace(state, get=Step(get_step(1), "get"))
    if state.get is not None and state.get.phase != "closed":
        return state
    if state.plan.verification is None:
        return replace(
            state, outcome=Outcome(completed=True, reason="Completed", message=state.final or "", at=state.at)
        )
    return state if state.verify is not None else replace(state, verify=Step(verify_step(1), "verify"))


def _steered_on(state: State) -> State:
    """A message that waited for the end of the work opens another turn; none is dropped (C53)."""
    turn = state.turn + 1
    steering = tuple(steer if steer.turn else replace(steer, turn=turn) for steer in state.steering)
    return _next_turn(replace(state, steering=steering))
