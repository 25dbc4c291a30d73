"""Absolute deadlines that follow from the state; who appends the fact that one has passed is the operator (R22)."""

from agentrun.core.schedule import lacking
from agentrun.core.state import State


def idle_deadline(state: State) -> int:
    """When a run that waits for a person is given up, microseconds UTC; 0 while it works or is not bounded.

    It waits since its last event: paused, or out of budget with nothing in flight (design 5).
    """
    seconds = state.plan.budget.idle_seconds
    over = state.terminal or state.stop is not None or state.unresolved or not state.admitted_at
    if not seconds or over or state.flying:
        return 0
    return state.at + seconds * 1_000_000 if state.paused or lacking(state) else 0


def wall_clock_deadline(state: State) -> int:
    """When the run's whole time is up, microseconds UTC; 0 when it has ended, is being stopped, or is not bounded."""
    return 0 if state.terminal or state.stop is not None else state.wall_clock_deadline
