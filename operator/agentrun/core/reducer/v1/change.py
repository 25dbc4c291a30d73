"""Small changes of state that several events share."""

from msgspec.structs import replace

from agentrun.core.ledger import Amounts
from agentrun.core.state import Call, Outcome, State, Step


def with_step(state: State, step: Step) -> State:
    """The state with that step in its place."""
    match step.kind:
        case "model":
            return replace(state, model=step)
        case "put":
            return replace(state, put=step)
        case "get":
            return replace(state, get=step)
        case "verify":
            return replace(state, verify=step)
        case "tool":
            calls = tuple(replace(call, step=step) if call.step.id == step.id else call for call in state.calls)
            return replace(state, calls=calls)


def close(state: State, step: Step, actual: Amounts | None = None) -> State:
    """Close a step for good and settle its hold; unknown use costs the whole hold."""
    settled = replace(state, ledger=state.ledger.settle(step.id, actual))
    return with_step(settled, replace(step, phase="closed"))


def reopen(state: State, step: Step, *, not_before: int = 0, counts: bool = False) -> State:
    """Another attempt of the same step; the lost one is charged its whole hold."""
    settled = replace(state, ledger=state.ledger.settle(step.id, None)) if step.flying else state
    again = replace(
        step, phase="open", attempt=step.attempt + 1, failures=step.failures + counts, not_before=not_before
    )
    return with_step(settled, again)


def close_call(state: State, call: Call, status: str, actual: Amounts | None = None) -> State:
    """Close a tool call with its status."""
    closed = close(state, call.step, actual)
    calls = tuple(replace(c, status=status) if c.step.id == call.step.id else c for c in closed.calls)
    return replace(closed, calls=calls)


def evidence(state: State) -> State:
    """The event is kept in the history and advances nothing (R3.4)."""
    return replace(state, evidence=state.evidence + 1)


def fail(state: State, reason: str, message: str) -> State:
    """End the run as failed; an effect in flight whose outcome nobody can know is kept visible instead."""
    state = _close_flying(state)
    if state.unresolved:
        return state
    return replace(state, outcome=Outcome(completed=False, reason=reason, message=message, at=state.at))


def _close_flying(state: State) -> State:
    for step in state.flying:
        call = state.call(step.id)
        if call is None:
            state = close(state, step)
        elif repeatable(state, call):
            state = close_call(state, call, "Error")
        else:
            state = unknown(state, call)
    return state


def unknown(state: State, call: Call) -> State:
    """The call's outside outcome is unknown: visible, never blindly retried (R5)."""
    closed = close_call(state, call, "Unknown")
    return replace(closed, unresolved=(*closed.unresolved, call.step.id))


def repeatable(state: State, call: Call) -> bool:
    """Whether another attempt of a call that lost its waiter is safe (R12): step memory answers Workspace calls."""
    tool = state.plan.tool(call.tool)
    return tool is not None and (tool.effect in ("ReadOnly", "Workspace") or tool.retry in ("Repeat", "SameKey"))
