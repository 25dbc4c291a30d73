"""The cluster cleans up after itself, however it ends (issue: a real cluster to test on)."""

import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cluster import binaries, lifecycle, resources
from tests.cluster.__main__ import uses_kind
from tests.cluster.config import nodes, runtime_dir, state_dir
from tests.cluster.shell import ClusterError, run

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.leftovers,
    pytest.mark.skipif(uses_kind(), reason="this machine's cluster is kind, which cleans up after itself"),
]
NAME = "leftover"
SYSCTLS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")


def snapshot() -> dict[str, set[str]]:
    """Everything a cluster could leave behind, by kind."""
    mounts = {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}
    cgroups = {str(path) for path in Path("/sys/fs/cgroup").glob("*/*") if path.is_dir()}
    sysctls = {f"{name}={(Path('/proc/sys') / name).read_text().strip()}" for name in SYSCTLS}
    return {
        "mounts": mounts,
        "cgroups": cgroups,
        "netns": set(run("ip", "netns", "list").split()),
        "links": {path.name for path in Path("/sys/class/net").iterdir()},
        "addresses": set(run("ip", "-o", "address", "show", "dev", "lo").split()),
        "rules": set(run("iptables", "-w", "-S").splitlines()),
        "routes": set(run("ip", "route").splitlines()),
        "sysctls": sysctls,
        "processes": {str(pid) for pid in resources.marked_processes(NAME)},
    }


def test_down_leaves_nothing_behind_even_after_every_process_was_killed(figure: Callable[[str, int], None]) -> None:
    """Up, kill some or all of it at once, up again (which says what it cleaned), down: as if it had never been."""
    if lifecycle.healthy("default"):
        lifecycle.down("default")  # both would want the same addresses
    before = snapshot()
    lifecycle.up(NAME)
    alive = [*resources.marked_processes(NAME)]
    alive += [pid for node in nodes(NAME) for pid in resources.cgroup_processes(node.cgroup)]
    random.shuffle(alive)
    killed = 0
    for pid in alive:
        try:
            os.kill(pid, signal.SIGKILL)
            killed += 1
        except ProcessLookupError:
            continue
    lifecycle.up(NAME)
    assert lifecycle.healthy(NAME)
    lifecycle.down(NAME)
    after = snapshot()
    assert {kind: after[kind] ^ before[kind] for kind in before if after[kind] != before[kind]} == {}
    assert not runtime_dir(NAME).exists()
    assert not state_dir(NAME).exists()
    figure("cluster.killed_processes", killed)


@pytest.mark.parametrize(
    ("absent", "said"),
    [
        (("go",), r"^missing: Go 1\.26 or later"),
        (("iptables", "ipset", "apt-get"), r"^missing: ipset, iptables \(no apt-get here: install them by hand\)$"),
    ],
)
def test_a_start_that_cannot_work_says_what_is_missing_in_one_line(
    monkeypatch: pytest.MonkeyPatch, absent: tuple[str, ...], said: str
) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name in absent else which(name))
    with pytest.raises(ClusterError, match=said):
        binaries.build()
