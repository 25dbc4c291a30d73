"""What the operator saw of the run's Pods."""

from typing import assert_never

from msgspec.structs import replace

from agentrun.core.events import SandboxFact, SandboxGone, SandboxLost, SandboxRefused, SandboxStarted
from agentrun.core.reducer.v1.change import evidence, fail, reopen
from agentrun.core.state import Pod, State, Step

VERIFY_ATTEMPTS = 3


def apply_sandbox(state: State, event: SandboxFact) -> State:
    """Fold one observation of a Pod into the state."""
    match event:
        case SandboxStarted():
            return _started(state, event)
        case SandboxLost():
            return _lost(state, event.pod_uid, event.reason, event.message)
        case SandboxGone():
            return _forget(state, event.pod_uid)
        case SandboxRefused():
            return _refused(state, event)
        case _:
            assert_never(event)


def _started(state: State, event: SandboxStarted) -> State:
    pod = Pod(event.pod_uid, event.pod_name, event.pod_ip, event.container_id, event.purpose, event.node)
    pods = (*(p for p in state.pods if p.uid != pod.uid and p.purpose != pod.purpose), pod)
    state = replace(state, pods=pods)
    if event.purpose != "work" or state.sandbox_ready:
        return state  # a container restarted in place keeps its workspace (C58)
    if not state.plan.workspace:
        return replace(state, sandbox_ready=True)
    return replace(state, put=state.put or Step("put1", "put"))


def _forget(state: State, uid: str) -> State:
    pods = tuple(pod for pod in state.pods if pod.uid != uid)
    work = any(pod.purpose == "work" for pod in pods)
    return replace(state, pods=pods, sandbox_ready=state.sandbox_ready and work)


def _lost(state: State, uid: str, reason: str, message: str) -> State:
    pod = next((p for p in state.pods if p.uid == uid), None)
    verify = state.verify
    if pod is not None and pod.purpose == "verify" and verify is not None and verify.phase != "closed":
        return _verify_lost(_forget(state, uid), verify, message)
    taken_out = state.get is not None and state.get.phase == "closed"
    state = _forget(state, uid)
    if taken_out or state.stop is not None:
        return state
    return fail(state, "SandboxLost", f"{reason}: {message}" if message else reason)


def _verify_lost(state: State, verify: Step, message: str) -> State:
    if state.stop is not None:
        return state
    if verify.failures + 1 >= VERIFY_ATTEMPTS:
        return fail(state, "SandboxLost", f"the verification Pod was lost {VERIFY_ATTEMPTS} times: {message}")
    return reopen(state, verify, counts=True)


def _refused(state: State, event: SandboxRefused) -> State:
    if state.stop is not None:
        return evidence(state)
    return fail(_forget(state, event.pod_uid), event.reason, event.message)
