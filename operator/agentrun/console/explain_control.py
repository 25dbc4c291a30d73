"""Where each control verb takes hold now, or why it does not (R9)."""

from typing import Any

from agentrun.api.naming import json_name
from agentrun.core.ids import model_step
from agentrun.core.schedule import lacking
from agentrun.core.state import State

Object = dict[str, Any]


def control(state: State) -> Object:
    """`{verbs: {verb: {possible, takesHold}}, milestones}`; milestones in microseconds UTC, 0 while not reached."""
    verbs = {
        "pause": _pause(state),
        "resume": _resume(state),
        "steer": _steer(state),
        "cancel": _cancel(state),
        "kill": _kill(state),
        "fork": (False, "not in this version"),
    }
    milestones = state.milestones
    return {
        "verbs": {verb: {"possible": possible, "takesHold": where} for verb, (possible, where) in verbs.items()},
        "milestones": {
            "cancelRequestedAt": milestones.requested,
            "acknowledgedAt": milestones.acknowledged,
            "quiescentAt": milestones.quiescent,
        },
    }


def _over(state: State) -> str:
    if state.terminal:
        return "the run is finished"
    return f"the run is being stopped ({state.stop.mode})" if state.stop else ""


def _in_flight(state: State) -> str:
    names = ", ".join(step.id for step in state.flying)
    return f"; in flight and left to finish: {names}" if names else "; nothing is in flight"


def _pause(state: State) -> tuple[bool, str]:
    over = _over(state)
    if over or state.paused:
        return False, over or "the run is paused"
    return True, f"at once for new steps{_in_flight(state)}"


def _resume(state: State) -> tuple[bool, str]:
    over = _over(state)
    if over or not state.paused:
        limit = lacking(state)
        return False, over or (f"what is missing is budget ({json_name(limit)})" if limit else "the run is not paused")
    return True, "with the next step"


def _steer(state: State) -> tuple[bool, str]:
    over = _over(state)
    if over:
        return False, over
    due = state.model is not None and state.model.phase == "open"
    turn = state.turn if due else state.turn + 1
    return True, f"before model call {model_step(turn)} (NextModelCall), or once the work in hand is done"


def _cancel(state: State) -> tuple[bool, str]:
    over = _over(state)
    if over:
        return False, over
    names = ", ".join(step.id for step in state.flying) or "nothing"
    return True, f"at once: no new step; stopped with its whole process tree: {names}"


def _kill(state: State) -> tuple[bool, str]:
    if state.terminal or (state.stop is not None and state.stop.mode == "Kill"):
        return False, "the run is finished" if state.terminal else "the run is being killed"
    pods = ", ".join(pod.name for pod in state.pods) or "no Pod"
    return True, f"at once: deleted without grace: {pods}"
