"""What could be begun now, and what the budget lets begin (R22)."""

from agentrun.core.ledger import ZERO, Amounts
from agentrun.core.plan import RunPlan
from agentrun.core.state import Call, State, Step


def next_steps(state: State) -> tuple[Step, ...]:
    """Open steps whose turn has come, in order; pause, stop and budget are the caller's business."""
    if state.terminal or not state.admitted_at:
        return ()
    work, verify = state.pod("work") is not None, state.pod("verify") is not None
    candidates = (
        state.put if work else None,
        state.model,
        *(call.step for call in _callable_now(state)),
        state.get if work else None,
        state.verify if verify else None,
    )
    return tuple(step for step in candidates if step is not None and step.phase == "open")


def _callable_now(state: State) -> tuple[Call, ...]:
    """Calls run in the order proposed; neighbours that only read run side by side."""
    unfinished = [call for call in state.calls if call.step.phase != "closed"]
    batch: list[Call] = []
    for call in unfinished:
        tool = state.plan.tool(call.tool)
        if tool is None or (tool.in_sandbox and not state.sandbox_ready):
            break
        if batch and not _reads(state.plan, call):
            break
        batch.append(call)
        if not _reads(state.plan, call):
            break
    return tuple(batch)


def _reads(plan: RunPlan, call: Call) -> bool:
    tool = plan.tool(call.tool)
    return tool is not None and tool.effect == "ReadOnly"


def worst_case(state: State, step: Step) -> Amounts:
    """What one attempt of a step may cost at most: reserved before it is dispatched."""
    if step.kind == "model":
        plan = state.plan
        return Amounts(model_calls=1, output_tokens=plan.max_output_tokens, cost_micro_usd=plan.reply_cost_micro_usd)
    if step.kind == "tool":
        return _tool_worst_case(state, step)
    return Amounts()


def _tool_worst_case(state: State, step: Step) -> Amounts:
    call = state.call(step.id)
    tool = state.plan.tool(call.tool) if call else None
    if tool is None:
        return Amounts(tool_calls=1)
    mutations = 1 if tool.effect == "External" else 0
    return Amounts(tool_calls=1, mutations=mutations, output_bytes=tool.max_output_bytes)


def affordable(state: State) -> tuple[tuple[Step, ...], str | None]:
    """The next steps that fit into the budget together, and the first limit that kept one out."""
    together = ZERO
    fitting: list[Step] = []
    for step in next_steps(state):
        together = together.plus(worst_case(state, step))
        limit = state.ledger.lacks(together, state.plan.budget)
        if limit is not None:
            return tuple(fitting), limit
        fitting.append(step)
    return tuple(fitting), None


def lacking(state: State) -> str | None:
    """The limit the run waits for: something is due, nothing is in flight, and the budget cannot take it."""
    if state.flying:
        return None
    steps, limit = affordable(state)
    return None if steps else limit
