"""What is recorded before a step's first byte leaves (R6, R3 (2)). Pure."""

from collections.abc import Callable, Iterable

from agentrun.core.commands import AnyCommand
from agentrun.core.digest import digest_json
from agentrun.core.events import StepDispatched
from agentrun.core.ids import idempotency_key
from agentrun.core.reducer import commands
from agentrun.core.state import State, Step

SECOND = 1_000_000
TRANSFER_SECONDS = 300  # to bring a workspace in or out
VERIFY_SLACK_SECONDS = 300  # for the fresh Pod to come up and take the workspace
TOOL_SLACK_SECONDS = 30  # for signature, connection and answer around the tool's own time

ModelFingerprint = Callable[[State], str | None]


def due(state: State, now: int, slots: int) -> list[Step]:
    """Steps to begin now, at most so many that `slots` are in flight."""
    free = max(0, slots - len(state.flying))
    return [step for step in _open(state, commands(state)) if step.not_before <= now][:free]


def next_due(state: State) -> int | None:
    """Earliest time at which a step that waits may begin (microseconds UTC)."""
    return min((step.not_before for step in _open(state, commands(state))), default=None)


def _open(state: State, issued: Iterable[AnyCommand]) -> list[Step]:
    steps = (state.step(command.step) for command in issued)
    return [step for step in steps if step is not None and not step.flying]


def dispatched(state: State, step: Step, now: int, model_fingerprint: ModelFingerprint) -> StepDispatched | None:
    """The record of one attempt; None if what it is based on is not at hand (then it is made after a reload)."""
    fingerprint = model_fingerprint(state) if step.kind == "model" else _fingerprint(state, step)
    if fingerprint is None:
        return None
    pod = state.pod("verify" if step.kind == "verify" else "work")
    return StepDispatched(
        step=step.id,
        attempt=step.attempt,
        key=idempotency_key(state.tenant.cluster, state.uid, "", step.id),
        fingerprint=fingerprint,
        actor=state.requester,
        scope=f"{state.namespace}/{state.definition}@{state.template_digest}",
        deadline=_deadline(state, step, now),
        target=pod.uid if pod is not None and _in_sandbox(state, step) else "",
    )


def _in_sandbox(state: State, step: Step) -> bool:
    if step.kind == "tool":
        call = state.call(step.id)
        tool = state.plan.tool(call.tool) if call else None
        return tool is not None and tool.in_sandbox
    return step.kind != "model"


def _fingerprint(state: State, step: Step) -> str:
    match step.kind:
        case "tool":
            call = state.call(step.id)
            tool = state.plan.tool(call.tool) if call else None
            return digest_json(["tool", tool.digest if tool else "", call.arguments if call else ""])
        case "put":
            return digest_json(["put", state.workspace])
        case "verify":
            return digest_json(["verify", state.template_digest, state.snapshot, state.workspace])
        case _:
            return digest_json([step.kind, state.uid])


def _deadline(state: State, step: Step, now: int) -> int:
    """Absolute, and never beyond the run's own."""
    deadline = now + _seconds(state, step) * SECOND
    return min(deadline, state.wall_clock_deadline) if state.wall_clock_deadline else deadline


def _seconds(state: State, step: Step) -> int:
    match step.kind:
        case "model":
            return state.plan.model_timeout_seconds
        case "tool":
            call = state.call(step.id)
            tool = state.plan.tool(call.tool) if call else None
            return (tool.timeout_seconds if tool else 60) + TOOL_SLACK_SECONDS
        case "verify":
            return (state.plan.verification.timeout_seconds if state.plan.verification else 600) + VERIFY_SLACK_SECONDS
        case _:
            return TRANSFER_SECONDS
