"""What a cluster makes outside its own folder, written down before it is made, and how each is taken away again.

A start that finds a record left by a killed cluster cleans by it: nothing is ever ended or removed by its looks.
"""

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.config import MARK, runtime_dir, state_dir
from tests.cluster.shell import run

CGROUPS = Path("/sys/fs/cgroup")


class Record:
    """A file of JSON lines, one per thing made, flushed to disk before the thing is."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.path = state_dir(cluster) / "resources.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, kind: str, name: str, value: str = "") -> None:
        """Write down one thing that is about to be made."""
        with self.path.open("a") as file:
            file.write(json.dumps({"kind": kind, "name": name, "value": value}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def entries(self) -> list[dict[str, str]]:
        """Everything recorded, newest first; a torn last line is ignored (what it named was not made yet)."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        found: list[dict[str, str]] = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found[::-1]


def marked_processes(cluster: str) -> Iterator[int]:
    """Processes that carry our mark in their environment, whoever their parent is now."""
    wanted = f"{MARK}={cluster}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in environment:
            yield int(entry.name)


def cgroup_processes(name: str) -> Iterator[int]:
    """Processes in a node's cgroup, in any hierarchy."""
    for root in CGROUPS.glob(f"*/{name}"):
        for path in [root, *(p for p in root.rglob("*") if p.is_dir())]:
            try:
                yield from (int(pid) for pid in (path / "cgroup.procs").read_text().split())
            except OSError:
                continue


def clean(cluster: str) -> list[str]:
    """Take away everything recorded; returns what was found, in words."""
    record = Record(cluster)
    entries = record.entries()
    cgroups = [entry["name"] for entry in entries if entry["kind"] == "cgroup"]
    said = _end_processes(cluster, cgroups)
    said += _unmount([state_dir(cluster), runtime_dir(cluster)])
    for entry in entries:
        word = _remove(entry)
        if word:
            said.append(word)
    shutil.rmtree(runtime_dir(cluster), ignore_errors=True)
    record.path.unlink(missing_ok=True)
    return said


def _end_processes(cluster: str, cgroups: list[str]) -> list[str]:
    ended: set[int] = set()
    for _ in range(50):
        alive = set(marked_processes(cluster)).union(*(cgroup_processes(name) for name in cgroups))
        alive = {pid for pid in alive if _running(pid)}
        if not alive:
            break
        for pid in alive:
            ended.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.1)
    return [f"{len(ended)} processes"] if ended else []


def _running(pid: int) -> bool:
    """A zombie is ended; its parent has only not looked yet."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def _unmount(below: list[Path]) -> list[str]:
    count = 0
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        target = line.split()[1].replace("\\040", " ")
        if any(target == str(root) or target.startswith(f"{root}/") for root in below):
            run("umount", "--lazy", target, check=False)
            count += 1
    return [f"{count} mounts"] if count else []


def _remove(entry: dict[str, str]) -> str:
    kind, name, value = entry["kind"], entry["name"], entry["value"]
    match kind:
        case "netns":
            return f"network namespace {name}" if _gone(f"/run/netns/{name}", "ip", "netns", "delete", name) else ""
        case "link":
            return f"link {name}" if _gone(f"/sys/class/net/{name}", "ip", "link", "delete", name) else ""
        case "address":
            run("ip", "address", "delete", value, "dev", name, check=False)
            return ""
        case "sysctl":
            Path(name).write_text(value)
            return ""
        case "cgroup":
            return f"cgroup {name}" if _remove_cgroup(name) else ""
        case "forward":
            run("iptables", "-w", "-D", "FORWARD", "-s", name, "-j", "ACCEPT", check=False)
            run("iptables", "-w", "-D", "FORWARD", "-d", name, "-j", "ACCEPT", check=False)
            return ""
        case "path":
            return _remove_path(Path(name))
        case _:
            return ""


def _remove_path(path: Path) -> str:
    if not path.exists():
        return ""
    shutil.rmtree(path, ignore_errors=True)
    return ""


def _gone(path: str, *command: str) -> bool:
    if not Path(path).exists():
        return False
    run(*command, check=False)
    return True


def _remove_cgroup(name: str) -> bool:
    found = False
    for _ in range(50):  # a killed process leaves its cgroup only when the kernel has reaped it
        roots = [path for path in CGROUPS.glob(f"*/{name}") if path.is_dir()]
        if not roots:
            break
        found = True
        for root in roots:
            for path in sorted((p for p in root.rglob("*") if p.is_dir()), reverse=True):
                _rmdir(path)
            _rmdir(root)
        time.sleep(0.05)
    return found


def _rmdir(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:
        return
