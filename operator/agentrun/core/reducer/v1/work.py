"""Answers of the model, of tools and of the sandbox."""

from typing import assert_never

from msgspec.structs import replace

from agentrun.core.events import (
    ModelCompleted,
    ModelFailed,
    ToolCompleted,
    VerificationCompleted,
    WorkResult,
    WorkspaceGot,
    WorkspacePut,
)
from agentrun.core.ledger import Amounts
from agentrun.core.reducer.v1.change import close, close_call, evidence, fail, reopen, unknown
from agentrun.core.reducer.v1.dispatch import in_flight
from agentrun.core.state import Call, Outcome, State, Step, StepKind

CONTINUATIONS = 2
_KIND: dict[type, StepKind] = {
    ModelCompleted: "model",
    ModelFailed: "model",
    ToolCompleted: "tool",
    WorkspacePut: "put",
    WorkspaceGot: "get",
    VerificationCompleted: "verify",
}


def apply_work(state: State, event: WorkResult) -> State:
    """Fold one answer into the state; one that answers nothing in flight is evidence."""
    step = in_flight(state, event.step, event.attempt)
    if step is None or step.kind != _KIND[type(event)]:
        return evidence(state)
    match event:
        case ModelCompleted():
            return _model_completed(state, step, event)
        case ModelFailed():
            return _model_failed(state, step, event)
        case ToolCompleted():
            return _tool_completed(state, event)
        case WorkspacePut():
            return replace(close(state, step), sandbox_ready=True)
        case WorkspaceGot():
            got = replace(close(state, step), snapshot=event.snapshot)
            return replace(got, artifacts=(*got.artifacts, *event.artifacts))
        case VerificationCompleted():
            return _verified(state, step, event)
        case _:
            assert_never(event)


def _model_completed(state: State, step: Step, event: ModelCompleted) -> State:
    usage = event.usage
    actual = Amounts(
        model_calls=1,
        input_tokens=usage.input_tokens + usage.cached_input_tokens,
        output_tokens=usage.output_tokens + usage.reasoning_tokens,
        cost_micro_usd=event.cost_micro_usd,
    )
    closed = close(state, step, actual)
    match event.finish:
        case "Length":
            return _cut(closed)
        case "ContentFilter":
            return fail(closed, "ModelFailed", "the provider's content filter ended the reply")
        case _:
            return _proposals(closed, event)


def _cut(state: State) -> State:
    """A reply cut at the output cap completes nothing and dispatches nothing (C39): bounded continuation."""
    if state.continuations >= CONTINUATIONS:
        return fail(
            state, "OutputTruncated", f"the reply was cut at the output limit {CONTINUATIONS + 1} times in a row"
        )
    return replace(state, continuations=state.continuations + 1, calls=())


def _proposals(state: State, event: ModelCompleted) -> State:
    calls = tuple(_call(state, proposed.id, proposed.tool, proposed.arguments, proposed.problem, proposed.detail)
                  for proposed in event.calls)  # fmt: skip
    final = None if calls else event.summary
    return replace(state, continuations=0, calls=calls, final=final)


def _call(state: State, call_id: str, tool: str, arguments: str, problem: str, detail: str) -> Call:
    """A call that cannot be carried out is answered at once, without dispatch (C45)."""
    if not problem and state.plan.tool(tool) is None:
        problem, detail = "NotFound", f"there is no tool named {tool!r}"
    phase: str = "closed" if problem else "open"
    step = Step(call_id, "tool", phase="closed" if phase == "closed" else "open")
    return Call(step, tool, arguments, problem, detail, "Refused" if problem else "")


def _model_failed(state: State, step: Step, event: ModelFailed) -> State:
    if state.stop is not None:
        return close(state, step)
    failures = step.failures + event.counts
    if not event.next_attempt_at or failures >= state.plan.model_attempts:
        return fail(state, "ModelFailed", f"{event.error_class}: {event.message}")
    return reopen(state, step, not_before=event.next_attempt_at, counts=event.counts)


def _tool_completed(state: State, event: ToolCompleted) -> State:
    call = state.call(event.step)
    if call is None:
        return evidence(state)
    tool = state.plan.tool(call.tool)
    external = tool is not None and tool.effect == "External"
    if event.status == "Unknown" and external:
        return unknown(state, call)
    mutations = 1 if external and event.status != "Refused" else 0
    actual = Amounts(tool_calls=1, mutations=mutations, output_bytes=event.output_bytes)
    return close_call(state, call, event.status, actual)


def _verified(state: State, step: Step, event: VerificationCompleted) -> State:
    closed = close(state, step)
    judged = replace(closed, artifacts=(*closed.artifacts, *event.artifacts))
    if event.passed:
        return replace(judged, outcome=Outcome(completed=True, reason="Verified", message=event.summary, at=state.at))
    return fail(judged, "VerificationFailed", event.summary)
