"""Steps as processes: every operation runs in a fork of this server, which therefore never waits and can end it.

A regular expression that never comes back, a tar of a gigabyte or memory that runs out cost that one process.
"""

import json
import os
import signal
import time

from agentrun_sandbox import TYPE_CHECKING, cgroup
from agentrun_sandbox.config import Config
from agentrun_sandbox.errors import StepError
from agentrun_sandbox.proc import send
from agentrun_sandbox.token import Claims

if TYPE_CHECKING:
    from collections.abc import Callable

    Body = dict[str, object]
    Operation = Callable[[], Body]


class Step:
    """One running step. `waiters` get the answer's bytes."""

    def __init__(self, key: str, claims: Claims, pid: int, pipe: int) -> None:
        self.key = key
        self.claims = claims
        self.pid = pid
        self.pipe = pipe
        self.received = bytearray()
        self.started = time.monotonic()
        self.started_at = int(time.time() * 1_000_000)
        self.oom_kills = cgroup.oom_kills()
        self.deadline = 0.0
        self.ended_by = ""  # error class, if this server ended it
        self.waiters: list[Callable[[bytes], None]] = []


def encode(members: "Body") -> bytes:
    """Members as a JSON object in UTF-8."""
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def envelope(config: Config, boot_id: str, claims: Claims, fence: int, members: bytes) -> bytes:
    """The answer's bytes: what every result has, then the operation's own members (an object that is not empty)."""
    common: Body = {
        "v": 1, "run": config.run, "step": claims.step, "op": claims.op, "attempt": claims.attempt,
        "podUID": config.pod_uid, "bootID": boot_id, "fence": fence,
    }  # fmt: skip
    return encode(common)[:-1] + b"," + members[1:]


def failure(error: StepError) -> "Body":
    """Members of a failed result."""
    return {"status": "error", "errorClass": error.kind, "message": error.message, **error.extra}


def spawn(operation: "Operation") -> "tuple[int, int]":
    """Fork a process that runs `operation`: its pid and the pipe its members come through. Raises StepError."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError as error:
        os.close(read_end)
        os.close(write_end)
        raise StepError("SpawnFailed", f"no process can be started: {error.strerror} (process limit?)") from None
    if pid == 0:
        _child(operation, write_end)
    os.close(write_end)
    os.set_blocking(read_end, False)
    return pid, read_end


def _child(operation: "Operation", pipe: int) -> None:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, pipe)  # the listener and every connection
        os.closerange(pipe + 1, 65536)
        members = _guarded(operation)
        data = encode(members)
        with os.fdopen(pipe, "wb") as file:
            file.write(len(data).to_bytes(8, "big") + data)
        code = 0
    finally:
        os._exit(code)


def _guarded(operation: "Operation") -> "Body":
    try:
        return {"status": "ok", **operation()}
    except StepError as error:
        return failure(error)
    except MemoryError:
        return failure(StepError("OOMKilled", "the operation needs more memory than the sandbox has"))
    except OSError as error:
        return failure(StepError("Internal", f"{type(error).__name__}: {error.strerror}"))
    except Exception as error:  # noqa: BLE001  (an untrusted workspace must not take the answer away)
        return failure(StepError("Internal", f"{type(error).__name__}: {error}"[:500]))


def members_of(step: Step, status: int, limit: int) -> bytes:
    """The result of a step whose process has ended, whole or typed by how it died; with its times."""
    raw = bytes(step.received)
    whole = len(raw) > 8 and len(raw) == 8 + int.from_bytes(raw[:8], "big")
    members = raw[8:] if whole else encode(failure(_died(step, status, limit)))
    times: Body = {"startedAt": step.started_at, "durationMs": int((time.monotonic() - step.started) * 1000)}
    return members[:-1] + b"," + encode(times)[1:]


def _died(step: Step, status: int, limit: int) -> StepError:
    if step.ended_by == "Timeout":
        return StepError("Timeout", "the operation was ended at its time limit")
    if step.ended_by == "Killed":
        return StepError("Killed", "every process of the sandbox was ended by a kill")
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        limit = cgroup.memory_limit() or limit
        told = f"of {limit} bytes" if limit else "of the sandbox"
        return StepError(
            "OOMKilled", f"the kernel ended the operation: the memory limit {told}", {"limitBytes": limit or None}
        )
    return StepError("Internal", f"the operation's process ended without a result (wait status {status})")


def end(step: Step, why: str) -> None:
    """End a step's process; what hangs below it falls to this server and is ended by its caller."""
    step.ended_by = step.ended_by or why
    send(step.pid, signal.SIGKILL)
