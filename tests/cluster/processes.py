"""Starting a cluster's processes: marked, logged, in the right network namespace; told apart by pid and start time."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.cluster.config import MARK, state_dir
from tests.cluster.shell import ClusterError, tail


def log_path(cluster: str, name: str) -> Path:
    """Log of a process."""
    return state_dir(cluster) / "logs" / f"{name}.log"


def start(cluster: str, name: str, argv: list[str], netns: str | None = None, env: dict[str, str] | None = None) -> int:
    """Start a process of the cluster in its own process group; returns its pid."""
    log = log_path(cluster, name)
    log.parent.mkdir(parents=True, exist_ok=True)
    # `ip netns exec` would hide /sys/fs/cgroup, so only the network namespace is entered.
    prefix = ["nsenter", f"--net=/run/netns/{netns}", "--"] if netns else []
    environment = {**os.environ, MARK: cluster, **(env or {})}
    with log.open("a") as file:
        process = subprocess.Popen(
            [*prefix, *argv],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )  # fmt: skip
    process.returncode = 0  # it outlives us on purpose: nobody waits for it, and Python need not warn of that
    _remember(cluster, name, process.pid, argv, netns)
    return process.pid


def restart(cluster: str, name: str) -> int:
    """Start a process again as it was started the last time."""
    known = processes(cluster)[name]
    return start(cluster, name, known["argv"], known["netns"])


def alive(cluster: str, name: str) -> bool:
    """Whether the process that was started under this name still runs."""
    known = processes(cluster).get(name)
    return known is not None and start_time(known["pid"]) == known["start"]


def must_live(cluster: str, name: str) -> None:
    """Raise with the end of its log if it has ended."""
    if not alive(cluster, name):
        raise ClusterError(f"{name} has ended: {tail(log_path(cluster, name))}")


def stop(cluster: str, name: str, how: signal.Signals = signal.SIGTERM, seconds: float = 10) -> None:
    """Signal one process by pid and start time, and wait for its end (SIGSTOP and SIGCONT return at once)."""
    known = processes(cluster).get(name)
    if known is None or not alive(cluster, name):
        return
    os.kill(known["pid"], how)
    end = time.monotonic() + seconds
    while how in (signal.SIGTERM, signal.SIGKILL) and alive(cluster, name):
        _reap(known["pid"])
        if time.monotonic() > end:
            os.kill(known["pid"], signal.SIGKILL)
        time.sleep(0.02)


def start_time(pid: int) -> str:
    """Start time in clock ticks, empty if there is no such process (or only its zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def processes(cluster: str) -> dict[str, Any]:
    """What was started, by name."""
    path = state_dir(cluster) / "processes.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _remember(cluster: str, name: str, pid: int, argv: list[str], netns: str | None) -> None:
    path = state_dir(cluster) / "processes.json"
    known = processes(cluster)
    known[name] = {"pid": pid, "start": start_time(pid), "argv": argv, "netns": netns}
    path.write_text(json.dumps(known, indent=1))
