"""What may be repeated after a failure, and what must be checked outside first (R12)."""

from typing import Any

from agentrun.api.naming import json_name
from agentrun.core.schedule import lacking
from agentrun.core.state import Call, State, Step

Object = dict[str, Any]


def recovery(state: State) -> Object:
    """`{steps: [{step, kind, tool, mayRepeat, sameKey, mustCheck, why}], needs}`."""
    steps = () if state.terminal else state.steps  # nothing of a finished run is ever repeated
    left = [step for step in steps if step.phase != "closed" or step.id in state.unresolved]
    return {"steps": [_step(state, step) for step in left], "needs": _needs(state)}


def _step(state: State, step: Step) -> Object:
    call = state.call(step.id)
    may, same_key, check, why = _tool(state, call) if call else _other(step)
    return {
        "step": step.id,
        "kind": step.kind,
        "tool": call.tool if call else "",
        "mayRepeat": may,
        "sameKey": same_key,
        "mustCheck": check,
        "why": why,
    }


def _other(step: Step) -> tuple[bool, bool, bool, str]:
    match step.kind:
        case "model":
            return True, False, False, "a model call changes nothing outside; a repetition costs again"
        case "put" | "get" | "verify" | "tool":
            return True, False, False, "content is checked by digest; the sandbox remembers finished steps"


def _tool(state: State, call: Call) -> tuple[bool, bool, bool, str]:
    """As the reducer decides after a lost owner: reads and idempotent calls again, others never blindly."""
    tool = state.plan.tool(call.tool)
    unresolved = call.step.id in state.unresolved
    if tool is None:
        return True, False, False, "no such tool in this definition: nothing was dispatched"
    if tool.effect == "Workspace":
        return False, False, False, "answered from the sandbox's step memory, or as SandboxReplaced; never run again"
    if tool.effect == "ReadOnly" or tool.retry == "Repeat":
        return True, False, unresolved, "reads only, or is idempotent by nature"
    if tool.retry == "SameKey":
        return True, True, unresolved, "the receiver knows the idempotency key"
    if call.step.phase == "open":
        return True, False, False, "not begun: nothing was dispatched"
    return False, False, True, "its outcome cannot be known from here: look outside before anything else"


def _needs(state: State) -> str:
    if state.terminal:
        return "nothing: the run is finished"
    if state.unresolved:
        return f"a person: find out what became of {', '.join(state.unresolved)}"
    if state.stop is not None:
        return "nothing: the run ends once all its Pods are gone"
    if not state.admitted_at:
        return "admission: the operator checks identity, policy and quota"
    return _held(state) or "nothing: the harness goes on by itself, after a restart too"


def _held(state: State) -> str:
    limit = lacking(state)
    if state.paused:
        return "a person: resume"
    return f"a person: {json_name(limit)} has no room for the next step; cancel, or start another run" if limit else ""
