"""Was something killed for memory? The kernel's counter of the container's cgroup, v2 or v1."""

from agentrun_sandbox.proc import read_file

_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_NO_LIMIT = 1 << 60


def oom_kills() -> "int | None":
    """How many processes of this container the kernel has killed for memory; None where it cannot be read."""
    for path in _EVENTS:
        for line in read_file(path).splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    return None


def memory_limit() -> int:
    """The limit in bytes; 0: none, or unknown."""
    for path in _LIMITS:
        raw = read_file(path).strip()
        if raw.isdigit() and int(raw) < _NO_LIMIT:
            return int(raw)
    return 0
