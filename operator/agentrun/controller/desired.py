"""Which Pods a run should have now, by purpose and number. Pure (design 8)."""

from agentrun.core.needs import wants_verify_pod, wants_work_pod
from agentrun.core.state import State


def desired_pods(state: State) -> dict[str, int]:
    """`{purpose: number}`; empty once nothing is to run any more."""
    wanted: dict[str, int] = {}
    if wants_work_pod(state):
        wanted["work"] = 1
    number = wants_verify_pod(state)
    if number is not None:
        wanted["verify"] = number
    return wanted


def may_delete(state: State) -> bool:
    """A cancelled call is ended by its owner first; a killed or finished run's Pods go at once (R9)."""
    if state.terminal or state.stop is None or state.stop.mode == "Kill":
        return True
    return not state.flying
