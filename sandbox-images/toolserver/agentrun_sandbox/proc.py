"""Processes as /proc tells them, and the end of whole trees."""

import errno
import os
import signal
import time

from agentrun_sandbox.encoding import shown

MAX_COMMAND_BYTES = 200


class Process:
    """One line of /proc: `state` is the kernel's letter (Z: dead, waits to be reaped)."""

    __slots__ = ("pid", "ppid", "state")

    def __init__(self, pid: int, ppid: int, state: str) -> None:
        self.pid = pid
        self.ppid = ppid
        self.state = state


def processes() -> "dict[int, Process]":
    """Every process of this PID namespace, by pid."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            entry = _process(int(name))
            if entry:
                found[entry.pid] = entry
    return found


def _process(pid: int) -> "Process | None":
    raw = read_file(f"/proc/{pid}/stat")
    if not raw:
        return None
    rest = raw[raw.rindex(b")") + 2 :].split()  # a process chooses its own name: parse after the last bracket
    return Process(pid, int(rest[1]), rest[0].decode())


def read_file(path: str) -> bytes:
    """A small file's bytes; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def command_of(pid: int) -> str:
    """The command line for people, or the kernel's name of the process in brackets."""
    raw = read_file(f"/proc/{pid}/cmdline").rstrip(b"\0").replace(b"\0", b" ")
    return shown(raw[:MAX_COMMAND_BYTES]) if raw else f"[{shown(read_file(f'/proc/{pid}/comm').strip())}]"


def descendants(root: int, spare: "frozenset[int]" = frozenset()) -> "list[Process]":
    """Living processes below `root`, the trees below the pids of `spare` left out."""
    table = processes()
    children: dict[int, list[Process]] = {}
    for entry in table.values():
        children.setdefault(entry.ppid, []).append(entry)
    found, todo = [], [root]
    while todo:
        for child in children.get(todo.pop(), ()):
            if child.pid not in spare:
                todo.append(child.pid)
                found.append(child)
    return [entry for entry in found if entry.state not in "ZX"]


def send(pid: int, number: int) -> None:
    """A signal to a process that may be gone already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:  # a set-uid program: no_new_privs forbids those in the Pod
        pass


def become_subreaper() -> None:
    """Orphans below this process become its children (prctl(2)): double forks and setsid lead nowhere."""
    import ctypes

    pr_set_child_subreaper = 36
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def end_descendants(seconds: float) -> bool:
    """Kill everything below this subreaper; True once proven: it has no child left, so nothing can hang below it.

    A tree is frozen before it is killed, so that a fork bomb cannot outrun the scan. Bounded by `seconds`.
    """
    end = time.monotonic() + seconds
    while True:
        if no_children():
            return True
        if time.monotonic() > end:
            return False
        alive = descendants(os.getpid())
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for entry in alive:
                send(entry.pid, number)
        time.sleep(0.001)


def no_children() -> bool:
    """Reap what is dead; True if this process has no child, dead or alive."""
    try:
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return False
    except ChildProcessError as error:
        return error.errno == errno.ECHILD
