"""What may be repeated after a failure, and what must be checked outside first (R12)."""

from typing import Any

from agentrun.core.state import Call, State, Step

Object = dict[str, Any]


def recovery(state: State) -> Object:
    """`{steps: [{step, kind, tool, mayRepeat, sameKey, mustCheck, why}], needs}`."""
    open_steps = [step for step in state.steps if step.phase != "closed" or step.id in state.unresolved]
    return {"steps": [_step(state, step) for step in open_steps], "needs": _needs(state)}


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
    tool = state.plan.tool(call.tool)
    if tool is None:
        return True, False, False, "no such tool in this definition: nothing was dispatched"
    if tool.effect == "Workspace":
        return False, False, False, "answered from the sandbox's step memory, or as SandboxReplaced; never run again"
    match tool.retry:
        case "Repeat":
            return True, False, False, "reads only, or is idempotent by nature"
        case "SameKey":
            return True, True, False, "the receiver knows the idempotency key"
        case _:
            return False, False, True, "its outcome cannot be known from here: look outside before anything else"


def _needs(state: State) -> str:
    if state.terminal:
        return "nothing: the run is finished"
    if state.unresolved:
        return f"a person: find out what became of {', '.join(state.unresolved)}"
    if state.paused:
        return "a person: resume"
    return "nothing: the harness goes on by itself, after a restart too"
