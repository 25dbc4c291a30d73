"""Level-triggered: the commands a state calls for, whatever road led to it."""

from typing import assert_never

from agentrun.core.commands import AnyCommand, CallModel, CallTool, GetWorkspace, PutWorkspace, Verify
from agentrun.core.schedule import affordable
from agentrun.core.state import State, Step


def wanted(state: State) -> tuple[AnyCommand, ...]:
    """In flight first, then what may begin. Terminal wants nothing (R3.1); paused or stopping begins nothing (R9)."""
    if state.terminal:
        return ()
    steps = list(state.flying)
    if not (state.paused or state.stop or state.unresolved):
        steps += affordable(state)[0]
    return tuple(_command(state, step) for step in steps)


def _command(state: State, step: Step) -> AnyCommand:
    match step.kind:
        case "model":
            return CallModel(step.id, step.attempt, step.not_before)
        case "tool":
            call = state.call(step.id)
            return CallTool(step.id, step.attempt, step.not_before, tool=call.tool if call else "")
        case "put":
            return PutWorkspace(step.id, step.attempt, step.not_before)
        case "get":
            return GetWorkspace(step.id, step.attempt, step.not_before)
        case "verify":
            return Verify(step.id, step.attempt, step.not_before)
        case _:
            assert_never(step.kind)
