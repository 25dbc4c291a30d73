"""What a run's status means to who waits for it: exit codes and one line. Pure."""

from enum import IntEnum
from typing import Any

from agentrun.kube.reading import member, members

Object = dict[str, Any]
STOPPED_REASONS = frozenset({"Cancelled", "Killed"})
_PERSON_STATES = frozenset({"needs_reconciliation", "waiting_approval"})
_SANDBOX_IS_FINE = frozenset({"", "Ready", "NotNeeded", "Pending", "Stopped", "Starting", "PodScheduled", "Pulling"})


class Exit(IntEnum):
    """Exit codes."""

    COMPLETED = 0
    ERROR = 1
    USAGE = 2
    FAILED = 3
    BLOCKED = 4  # needs_reconciliation, or a person must act
    STOPPED = 5  # cancelled or killed
    TIMED_OUT = 124  # as timeout(1) says it
    INTERRUPTED = 130  # as shells count a process that SIGINT ended


def finished(run: Object) -> Exit | None:
    """How a run ended; None while it has not."""
    status = member(run, "status")
    match status.get("state"):
        case "completed":
            return Exit.COMPLETED
        case "failed":
            return Exit.STOPPED if status.get("reason") in STOPPED_REASONS else Exit.FAILED
        case _:
            return None


def blocked(run: Object) -> bool:
    """Whether nothing will go on without a person."""
    status = member(run, "status")
    state = status.get("state")
    if state in _PERSON_STATES or (state == "paused" and status.get("reason") != "Draining"):
        return True
    return condition(run, "Stalled") == ("True", "Blocked")


def condition(run: Object, kind: str) -> tuple[str, str]:
    """(status, reason) of a condition; empty where there is none yet."""
    for found in members(member(run, "status"), "conditions"):
        if found.get("type") == kind:
            return str(found.get("status", "")), str(found.get("reason", ""))
    return "", ""


def standing(run: Object) -> tuple[str, str, str]:
    """(state, reason, detail), as people are shown it; still untrusted text."""
    status = member(run, "status")
    state, reason = str(status.get("state") or "created"), str(status.get("reason") or "")
    return state, reason, _detail(run, status)


def _detail(run: Object, status: Object) -> str:
    sandbox = _sandbox_trouble(run)
    waiting = f"waiting on {status['waitingOn']}" if status.get("waitingOn") else ""
    return "; ".join(part for part in (str(status.get("message") or ""), sandbox, waiting) if part)


def _sandbox_trouble(run: Object) -> str:
    """A Pod that cannot start is what the reader looks for (C60)."""
    ready, reason = condition(run, "SandboxReady")
    if ready != "False" or reason in _SANDBOX_IS_FINE or finished(run) is not None:
        return ""
    messages = [str(one.get("message") or "") for one in members(member(run, "status"), "conditions")
                if one.get("type") == "SandboxReady"]  # fmt: skip
    return f"sandbox: {reason}" + (f": {messages[0]}" if messages[0] else "")
