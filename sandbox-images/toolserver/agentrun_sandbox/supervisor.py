"""Running steps, their deadlines and their ends; orphans of a step that died; the end of everything."""

import os
import signal
import time

from agentrun_sandbox import TYPE_CHECKING
from agentrun_sandbox.config import Config
from agentrun_sandbox.errors import Refused, StepError
from agentrun_sandbox.memory import Memory
from agentrun_sandbox.proc import become_subreaper, command_of, descendants, processes, send
from agentrun_sandbox.steps import Step, encode, end, envelope, failure, members_of, spawn
from agentrun_sandbox.token import Claims

if TYPE_CHECKING:
    from collections.abc import Callable

    Body = dict[str, object]
    Answer = Callable[[bytes], None]

COMMANDS = ("run", "tool", "verify")
DEFAULT_TIMEOUT_SECONDS = 120
GRACE_SECONDS = 20.0  # beyond a command's own limit: to kill, drain and write the result
END_SECONDS = 5.0
IDLE_SECONDS = 60.0


class Supervisor:
    """Owns every process below the server."""

    def __init__(
        self, config: Config, boot_id: str, memory: Memory,
        watch: "Callable[[int, Callable[[int], None]], None]", unwatch: "Callable[[int], None]",
    ) -> None:  # fmt: skip
        self._config = config
        self._boot_id = boot_id
        self._memory = memory
        self._watch = watch
        self._unwatch = unwatch
        self._steps: dict[str, Step] = {}
        if os.getpid() != 1:
            become_subreaper()

    def running(self) -> int:
        """How many steps are running."""
        return len(self._steps)

    def answer_of(self, claims: Claims, error: StepError) -> bytes:
        """The bytes of a failed result that is not remembered."""
        return self._encoded(claims, encode(failure(error)))

    def join(self, claims: Claims, key: str, answer: "Answer") -> bool:
        """Wait for a step that is running. Raises Refused (StepConflict)."""
        step = self._steps.get(key)
        if step is None:
            return False
        if step.claims.body_digest != claims.body_digest or step.claims.op != claims.op:
            raise Refused(409, "StepConflict", f"step {key} is running with another body or operation")
        step.waiters.append(answer)
        return True

    def begin(self, claims: Claims, key: str, body: "Body", raw: bytes, answer: "Answer") -> None:
        """Start a step; `answer` is called with its result's bytes. Raises Refused, StepError."""
        if claims.op == "kill":
            answer(self._encoded(claims, encode({"status": "ok", **self.kill_everything()})))
            return
        if claims.op == "ps":
            answer(self._encoded(claims, encode({"status": "ok", "processes": self.list_processes()})))
            return
        self._note_start(claims, key)
        try:
            pid, pipe = spawn(lambda: self._perform(claims, body, raw))
        except StepError as error:
            data = self.answer_of(claims, error)
            self._store(claims, key, data)
            answer(data)
            return
        step = Step(key, claims, pid, pipe)
        step.deadline = step.started + self._seconds(claims.op, body)
        step.waiters.append(answer)
        self._steps[key] = step
        self._watch(pipe, lambda _: self._read(step))

    def _perform(self, claims: Claims, body: "Body", raw: bytes) -> "Body":
        from agentrun_sandbox.operations import perform
        from agentrun_sandbox.ops.context import Context

        context = Context(body, raw, self._config.limits, self._config.workspace, self._config.state)
        return perform(claims.op, claims.step, context)

    def _seconds(self, op: str, body: "Body") -> float:
        """When this server ends a step's process; commands are ended by that process itself, sooner."""
        most = self._config.limits.step_seconds
        given = body.get("timeoutSeconds", DEFAULT_TIMEOUT_SECONDS)
        if op in COMMANDS:
            return most + GRACE_SECONDS
        return min(given, most) if type(given) is int and op not in ("put", "get") else most

    def _note_start(self, claims: Claims, key: str) -> None:
        from agentrun_sandbox.dispatch import ALWAYS

        if claims.op in ALWAYS:
            return
        record: Body = {
            "bodyDigest": claims.body_digest,
            "op": claims.op,
            "attempt": claims.attempt,
            "bootID": self._boot_id,
        }
        try:
            self._memory.begin(key, record)
        except OSError as error:
            raise Refused(503, "StateUnavailable", f"the state volume cannot be written: {error.strerror}") from None

    def _store(self, claims: Claims, key: str, data: bytes) -> None:
        from agentrun_sandbox.dispatch import ALWAYS

        if claims.op not in ALWAYS:
            try:
                self._memory.finish(key, data)
            except OSError:
                pass  # the answer still goes out; asked again, the step is SandboxReplaced, never run twice

    def _encoded(self, claims: Claims, members: bytes) -> bytes:
        return envelope(self._config, self._boot_id, claims, self._memory.fence, members)

    def _read(self, step: Step) -> None:
        try:
            data = os.read(step.pipe, 1 << 20)
        except BlockingIOError:
            return
        if data:
            step.received += data
            return
        self._unwatch(step.pipe)
        os.close(step.pipe)
        _, status = os.waitpid(step.pid, 0)  # its end of the pipe is closed: it is ending
        self._finish(step, status)

    def _finish(self, step: Step, status: int) -> None:
        del self._steps[step.key]
        members = members_of(step, status, self._config.limits.memory_bytes)
        if status or step.claims.op in COMMANDS:
            self.end_strays()  # what it could not end itself: it died first, or ran out of time
        data = self._encoded(step.claims, members)
        self._store(step.claims, step.key, data)
        for answer in step.waiters:
            answer(data)

    def seconds_to_deadline(self) -> float:
        """How long the server may sleep."""
        if not self._steps:
            return IDLE_SECONDS
        nearest = min(step.deadline for step in self._steps.values())
        return min(IDLE_SECONDS, max(0.01, nearest - time.monotonic()))

    def tick(self) -> None:
        """Reap orphans, end steps that are over their time."""
        self._reap()
        now = time.monotonic()
        for step in list(self._steps.values()):
            if now > step.deadline:
                end(step, "Timeout")

    def _reap(self) -> None:
        own = {step.pid for step in self._steps.values()}
        for entry in processes().values() if _has_dead_child() else ():
            if entry.ppid == os.getpid() and entry.state == "Z" and entry.pid not in own:
                os.waitpid(entry.pid, os.WNOHANG)

    def end_strays(self) -> bool:
        """End every process that hangs below this server and below no running step."""
        limit = time.monotonic() + END_SECONDS
        spare = frozenset(step.pid for step in self._steps.values())
        while time.monotonic() < limit:
            strays = descendants(os.getpid(), spare)
            self._reap()
            if not strays:
                return True
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for entry in strays:
                    send(entry.pid, number)
            time.sleep(0.001)
        return False

    def kill_everything(self) -> "Body":
        """End all steps and whatever they left; from pid 1 by kill(-1), which nothing escapes."""
        before = len(descendants(os.getpid()))
        for step in self._steps.values():
            step.ended_by = step.ended_by or "Killed"
        limit = time.monotonic() + END_SECONDS
        while time.monotonic() < limit:
            _kill_all()
            self._reap()
            left = descendants(os.getpid())
            if not left:
                break
            time.sleep(0.001)
        survivors = descendants(os.getpid())
        return {
            "killed": before,
            "survivors": [{"pid": entry.pid, "command": command_of(entry.pid)} for entry in survivors],
        }

    def end_everything(self) -> None:
        """At SIGTERM."""
        self.kill_everything()

    def list_processes(self) -> "list[Body]":
        """Living processes other than the server and its steps' own."""
        own = {step.pid for step in self._steps.values()}
        found = [entry for entry in descendants(os.getpid()) if entry.pid not in own]
        return [
            {"pid": entry.pid, "ppid": entry.ppid, "state": entry.state, "command": command_of(entry.pid)}
            for entry in found[:1000]
        ]


def _kill_all() -> None:
    """kill(-1) only as pid 1 of a namespace: anywhere else it would reach every process of the user."""
    if os.getpid() == 1:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for entry in descendants(os.getpid()):
            send(entry.pid, number)


def _has_dead_child() -> bool:
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False
