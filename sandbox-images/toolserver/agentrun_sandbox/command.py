"""One command: started without a shell, drained in bounded memory, ended with everything it left behind."""

import errno
import os
import resource
import select
import signal
import time

from agentrun_sandbox.encoding import shown
from agentrun_sandbox.errors import StepError
from agentrun_sandbox.proc import Process, command_of, descendants, end_descendants

END_SECONDS = 10.0
MAX_SURVIVORS_TOLD = 32
_POLL_MS = 20  # only while pipes are held open by someone else than the child


class Output:
    """The first and the last bytes of a stream, half of `keep` each; the middle is counted and dropped."""

    def __init__(self, keep: int) -> None:
        self._head_room = keep - keep // 2
        self._tail_room = keep // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take bytes from the pipe."""
        self.total += len(data)
        room = self._head_room - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_room + 65536:
            del self._tail[: len(self._tail) - self._tail_room]

    @property
    def cut(self) -> bool:
        """Whether bytes are missing."""
        return self.total > self._head_room + self._tail_room

    def value(self) -> bytes:
        """All bytes, or head, a line that says how many are missing, tail."""
        if not self.cut:
            return bytes(self._head + self._tail)
        tail = bytes(self._tail[len(self._tail) - self._tail_room :])
        missing = self.total - len(self._head) - len(tail)
        return b"%s\n[... %d bytes cut ...]\n%s" % (self._head, missing, tail)


class Ended:
    """How a command ended. `status` is wait(2)'s; `survivors` were alive at its end and have been killed."""

    def __init__(self) -> None:
        self.status = 0
        self.timed_out = False
        self.survivors: list[dict[str, object]] = []
        self.all_dead = True


class Command:
    """Runs in a process of its own that is a subreaper and has no other children."""

    def __init__(
        self,
        argv: "list[str]",
        cwd_fd: int,
        environment: "dict[str, str]",
        keep: int,
        stdin_fd: int,
        processes: int = 0,
    ) -> None:
        self._argv = argv
        self._cwd_fd = cwd_fd
        self._environment = environment
        self._stdin_fd = stdin_fd
        self._processes = processes
        self.stdout = Output(keep)
        self.stderr = Output(keep)
        self._pipes: dict[int, Output] = {}
        self._poll = select.poll()

    def run(self, seconds: float) -> Ended:
        """Start, drain, wait, clean up. Raises StepError: NotFound, SpawnFailed."""
        end_at = time.monotonic() + seconds
        pid = self._spawn()
        ended = Ended()
        pidfd = os.pidfd_open(pid)
        self._poll.register(pidfd, select.POLLIN)
        ended.timed_out = not self._drain_until(pidfd, end_at)
        if ended.timed_out:
            os.kill(pid, signal.SIGSTOP)  # frozen, not dead: its children keep their parent while they are counted
        left = [entry for entry in descendants(os.getpid()) if entry.pid != pid]
        ended.survivors = [_told(entry) for entry in left[:MAX_SURVIVORS_TOLD]]
        if ended.timed_out:
            os.kill(pid, signal.SIGKILL)
        _, ended.status = os.waitpid(pid, 0)
        ended.all_dead = end_descendants(END_SECONDS)
        self._drain_rest()
        return ended

    def _spawn(self) -> int:
        out, err, failure = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        try:
            pid = os.fork()
        except OSError as error:
            raise StepError("SpawnFailed", f"no process can be started: {error.strerror} (process limit?)") from None
        if pid == 0:
            self._child(out[1], err[1], failure[1])
        for _, write_end in (out, err, failure):
            os.close(write_end)
        with os.fdopen(failure[0], "rb") as pipe:
            told = pipe.read()
        if told:
            os.waitpid(pid, 0)
            raise _spawn_error(self._argv[0], int(told), self._environment.get("PATH", ""))
        for fd, output in ((out[0], self.stdout), (err[0], self.stderr)):
            os.set_blocking(fd, False)
            self._pipes[fd] = output
            self._poll.register(fd, select.POLLIN)
        return pid

    def _child(self, out: int, err: int, failure: int) -> None:
        code = 0
        try:
            os.setsid()
            os.fchdir(self._cwd_fd)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)  # Python ignores some, and exec keeps that
            for target, fd in enumerate((self._stdin_fd, out, err)):
                os.dup2(fd, target, inheritable=True)
            os.closerange(3, failure)
            if self._processes:
                resource.setrlimit(resource.RLIMIT_NPROC, (self._processes, self._processes))
            _exec(self._argv, self._environment)
        except OSError as error:
            code = error.errno or 1
        except ValueError:
            code = errno.EPERM  # the process limit is above a hard one
        finally:
            os.write(failure, str(code or 1).encode())
            os._exit(127)

    def _drain_until(self, pidfd: int, end_at: float) -> bool:
        """Drain until the child has exited; False if the time was up first."""
        while True:
            left = end_at - time.monotonic()
            if left <= 0:
                return False
            ready = self._poll.poll(min(left, 60) * 1000 + 1)
            for fd, _ in ready:
                if fd != pidfd:
                    self._read(fd)
            if any(fd == pidfd for fd, _ in ready):
                return True

    def _drain_rest(self) -> None:
        """What stands in the pipes after all writers are dead, at most what a pipe holds."""
        for fd in list(self._pipes):
            while self._read(fd):
                pass

    def _read(self, fd: int) -> bool:
        output = self._pipes.get(fd)
        if output is None:
            return False
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return False
        if not data:
            self._poll.unregister(fd)
            del self._pipes[fd]
            os.close(fd)
            return False
        output.add(data)
        return True


def _told(entry: Process) -> "dict[str, object]":
    return {"pid": entry.pid, "command": command_of(entry.pid)}


def _exec(argv: "list[str]", environment: "dict[str, str]") -> None:
    """execvpe(3): a name without a slash is looked up in the PATH that the command itself will see."""
    raw = [os.fsencode(item) for item in argv]
    env = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    if b"/" in raw[0]:
        os.execve(raw[0], raw, env)
    denied: OSError | None = None
    for folder in os.fsencode(environment.get("PATH", "")).split(b":"):
        try:
            os.execve(os.path.join(folder or b".", raw[0]), raw, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            denied = denied or error
    raise denied or FileNotFoundError(2, "")


def _spawn_error(program: str, number: int, path: str) -> StepError:
    name = shown(os.fsencode(program))[:200]
    if number in (2, 20):
        where = "" if "/" in program else f" in PATH={path}"
        return StepError("NotFound", f"there is no program {name}{where} in this image (or its interpreter is missing)")
    return StepError("SpawnFailed", f"{name} cannot be started: {os.strerror(number)}")
