"""Which sandboxes a run needs now: what the operator makes real (design 8)."""

from agentrun.core.state import State


def wants_work_pod(state: State) -> bool:
    """From admission, beside the first model call, until the workspace is taken out or the run ends."""
    if state.terminal or state.stop is not None or not state.admitted_at or not state.plan.needs_sandbox:
        return False
    taken_out = state.get is not None and state.get.phase == "closed"
    return not taken_out


def wants_verify_pod(state: State) -> int | None:
    """Number of the fresh Pod that judges the goal, while one is needed."""
    if state.terminal or state.stop is not None or state.verify is None or state.verify.phase == "closed":
        return None
    return state.verify.attempt


def needs_get(state: State) -> bool:
    """Whether the workspace is worth taking out at the end."""
    return state.plan.needs_sandbox and (state.sandbox_ready or state.plan.verification is not None)
