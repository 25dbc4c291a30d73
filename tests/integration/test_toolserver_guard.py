"""The guard against real sockets: what is closed, what is open, and what is no proof at all (C28, C29, R20)."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.shell import need_packages
from tests.unit.toolserver.kit import TOOLSERVER, Sandbox, call

from agentrun_sandbox import guard

Json = dict[str, Any]


@contextmanager
def listener(host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Something that answers, as ip:port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=64) as server:
        shown = f"[{host}]" if ":" in host else host
        thread = threading.Thread(target=_accept, args=(server,))
        thread.start()
        try:
            yield f"{shown}:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(20)


def _accept(server: socket.socket) -> None:
    while True:
        try:
            server.accept()[0].close()
        except OSError:
            return  # shut down


def closed_port() -> str:
    """An address where nothing listens."""
    with listener() as target:
        return target


def run(
    folder: Path, wanted: object, *arguments: str, before: Sequence[str] = (), **environment: str
) -> tuple[int, Json]:
    """Exit status and termination message of the guard as a process."""
    log = folder / "termination-log"
    log.unlink(missing_ok=True)
    given = {
        **os.environ, "PYTHONPATH": str(TOOLSERVER), "AGENTRUN_TERMINATION_LOG": str(log), "POD_UID": "p1",
        "AGENTRUN_SANDBOX": json.dumps({"v": 1, "guard": wanted}), **environment,
    }  # fmt: skip
    command = [*before, sys.executable, "-m", "agentrun_sandbox.guard", *arguments]
    done = subprocess.run(command, env=given, capture_output=True, timeout=60, check=False)
    message = log.read_bytes()
    assert len(message) < 4096
    return done.returncode, json.loads(message)


def test_closed_targets_are_proof_after_two_tries_C28(tmp_path: Path) -> None:
    code, said = run(tmp_path, {"denied": [closed_port()], "allowed": []}, "check")
    assert (code, said["ok"], said["open"], said["podUID"]) == (0, True, [], "p1")
    assert said["durationMs"] >= 200


def test_dropped_packets_are_proof_too_C28(tmp_path: Path) -> None:
    """As most policy engines do it: no answer ever comes."""
    need_packages({"iptables": "iptables", "ip": "iproute2", "unshare": "util-linux"})
    script = 'ip link set lo up && iptables -I OUTPUT -d 127.0.0.9 -j DROP && exec "$@"'
    before = ["unshare", "--net", "sh", "-c", script, "sh"]
    wanted = {"denied": ["127.0.0.9:80"], "api": "127.0.0.9:443", "node": True}
    code, said = run(tmp_path, wanted, before=before, HOST_IP="127.0.0.9")
    assert (code, said["ok"]) == (0, True)
    assert said["durationMs"] < 10_000


def test_open_target_fails_closed_after_fifteen_seconds_C28(tmp_path: Path) -> None:
    with listener() as target:
        code, said = run(tmp_path, {"denied": [closed_port(), target]})
    assert (code, said["ok"], said["open"]) == (1, False, [target])
    assert "NetworkPolicy" in said["message"]
    assert 15_000 <= said["durationMs"] < 25_000


def test_policy_that_comes_a_moment_late_is_waited_for_C28(tmp_path: Path) -> None:
    stack = ExitStack()
    target = stack.enter_context(listener())
    timer = threading.Timer(1.0, stack.close)
    timer.start()
    code, said = run(tmp_path, {"denied": [target]})
    timer.join()
    assert (code, said["ok"], said["open"]) == (0, True, [])
    assert said["durationMs"] >= 200


@pytest.mark.parametrize("tolerate", [["NodeIP", "APIServer"], ["NodeIP"], []], ids=str)
def test_only_what_the_class_tolerates_may_be_open_C29(tolerate: list[str]) -> None:
    with listener() as api, listener("127.0.0.3") as node:
        wanted = {"denied": [closed_port()], "api": api, "node": True, "tolerate": tolerate}
        found = guard.targets(wanted, "127.0.0.1")
        (kubelet,) = [target for target in found if target.text == "127.0.0.1:10250"]
        kubelet.text, (kubelet.family, kubelet.address) = node, guard.parse_target(node)
        guard.probe(found, patience=1.0)
    said = guard.result_of(found, time.monotonic())
    open_ones = {"APIServer": api, "NodeIP": node}
    assert said["tolerated"] == [open_ones[name] for name in ("APIServer", "NodeIP") if name in tolerate]
    assert said["open"] == [open_ones[name] for name in ("APIServer", "NodeIP") if name not in tolerate]
    assert said["ok"] is (len(tolerate) == 2)


def test_tolerated_and_closed_is_not_told_as_open_C29(tmp_path: Path) -> None:
    wanted = {"denied": [closed_port()], "api": closed_port(), "tolerate": ["APIServer"]}
    code, said = run(tmp_path, wanted)
    assert (code, said["tolerated"]) == (0, [])


def test_allowed_target_must_answer_R20() -> None:
    with listener() as proxy:
        gone = closed_port()
        found = guard.targets({"denied": [closed_port()], "allowed": [proxy, gone]}, "")
        guard.probe(found, patience=1.0)
    said = guard.result_of(found, time.monotonic())
    assert (said["ok"], said["allowedFailed"], said["open"]) == (False, [gone], [])


def test_allowed_target_that_answers_late_is_waited_for_R20(tmp_path: Path) -> None:
    address = closed_port()
    with ExitStack() as stack:
        timer = threading.Timer(0.7, lambda: stack.enter_context(listener("127.0.0.1", int(address.split(":")[1]))))
        timer.start()
        code, said = run(tmp_path, {"denied": [closed_port()], "allowed": [address]})
        timer.join()
    assert (code, said["allowedFailed"]) == (0, [])


def test_targets_are_tried_in_parallel_R20() -> None:
    found = guard.targets({"denied": [closed_port() for _ in range(50)]}, "")
    begun = time.monotonic()
    guard.probe(found, patience=15.0)
    assert all(target.tries == 2 for target in found)
    assert time.monotonic() - begun < 50 * guard.APART_SECONDS / 2


def test_one_failure_between_two_successes_is_no_proof_C28() -> None:
    target = guard.Target("127.0.0.1:1", closed=True)
    now = 0.0
    for connected in (False, True, False):
        target.end(now, connected=connected)
    assert not target.settled
    target.end(now, connected=False)
    assert target.settled


def test_the_same_over_ipv6_C29() -> None:
    with listener("::1") as target:
        found = guard.targets({"denied": [target]}, "")
        guard.probe(found, patience=0.5)
        assert guard.result_of(found, time.monotonic())["open"] == [target]


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({}, "nothing is proven"),
        ({"denied": [], "api": "127.0.0.1:1", "tolerate": ["APIServer"]}, "nothing is proven"),
        ({"denied": "127.0.0.1:1"}, "guard.denied"),
        ({"denied": ["broker:8081"]}, "no names"),
        ({"denied": ["127.0.0.1"]}, "ip:port"),
        ({"denied": ["127.0.0.1:0"]}, "ip:port"),
        ({"denied": ["127.0.0.1:65536"]}, "ip:port"),
        ({"denied": ["::1:80"]}, "brackets"),
        ({"denied": ["127.0.0.1:1"], "node": True}, "HOST_IP"),
        ({"denied": ["127.0.0.1:1"], "tolerate": ["Everything"]}, "guard.tolerate"),
        (None, "AGENTRUN_SANDBOX.guard"),
    ],
    ids=str,
)
def test_configuration_that_proves_nothing_is_refused_C28(tmp_path: Path, wanted: object, told: str) -> None:
    code, said = run(tmp_path, wanted, HOST_IP="")
    assert (code, said["ok"]) == (2, False)
    assert told in said["message"]


def test_many_open_targets_fit_into_the_termination_message_C28() -> None:
    found = [
        guard.Target(f"[2001:db8:ffff:ffff:ffff:ffff:ffff:{number:x}]:65535", closed=True) for number in range(500)
    ]
    found += [guard.Target(target.text, closed=False) for target in found]
    result = guard.result_of(found, time.monotonic())
    assert result["ok"] is False
    assert len(json.dumps(result)) < 4096


def test_copied_tree_serves_where_it_was_copied_to_R20(tmp_path: Path) -> None:
    """The fallback where nodes have no image volumes: check and copy in one init container."""
    need_packages(
        {"/usr/bin/python3.11": "python3.11-minimal", "/usr/lib/python3.11/tarfile.py": "libpython3.11-stdlib"}
    )
    image, target = tmp_path / "image", tmp_path / "target"
    assemble = TOOLSERVER.parent / "tool-server" / "assemble.py"
    subprocess.run(["/usr/bin/python3.11", assemble, TOOLSERVER, image], check=True, timeout=60)
    target.mkdir()
    own = [image / "agentrun/lib/ld.so", "--library-path", image / "agentrun/lib", image / "agentrun/bin/python3"]
    environment = {
        "AGENTRUN_TERMINATION_LOG": str(tmp_path / "log"),
        "AGENTRUN_SANDBOX": json.dumps({"v": 1, "guard": {"denied": [closed_port()]}}),
    }
    command = [*own, "-I", "-S", "-X", "utf8", "-m", "agentrun_sandbox.guard", "check", "copy", str(target)]
    assert subprocess.run(command, env=environment, check=False, timeout=60).returncode == 0
    assert sorted(path.name for path in target.iterdir()) == ["bin", "lib"]
    python = [target / "lib/ld.so", "--library-path", target / "lib", target / "bin/python3", "-I", "-S", "-X", "utf8"]
    with Sandbox(tmp_path, environment={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}, python=python) as box:
        assert box.ok("run", call(argv=["true"]))["exitCode"] == 0
        maps = Path(f"/proc/{box.pid}/maps").read_text()
        files = {line.split()[5] for line in maps.splitlines() if " r-xp " in line and "/" in line}
        assert files
        assert "ld.so" in {Path(name).name for name in files}
        assert [name for name in files if not name.startswith(str(target))] == []  # no code of this machine's


def test_failed_check_copies_nothing_C28(tmp_path: Path) -> None:
    code, _ = run(tmp_path, {}, "check", "copy", str(tmp_path / "target"))
    assert code == 2
    assert not (tmp_path / "target").exists()
