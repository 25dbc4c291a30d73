"""Commands in a real server: what ends them, what they leave behind, what they may write (R20, R15)."""

import base64
import os
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.toolserver.kit import Answer, Sandbox, call, shell, until

# Leaves its parent, its session and its process group, twice, and says where it is.
DAEMON = (
    "import os, sys, time\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "open(sys.argv[1], 'w').write(str(os.getpid()))\n"
    "time.sleep(600)\n"
)
MEMORY = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Sandbox]:
    """A running server."""
    with Sandbox(tmp_path) as running:
        yield running


def test_background_child_does_not_hold_the_command_up_C56(box: Sandbox) -> None:
    result = box.ok("run", shell("sleep 600 & echo ok", timeoutSeconds=30))
    assert (result["exitCode"], result["stdout"]) == (0, "ok\n")
    (survivor,) = result["survivors"]
    assert "sleep 600" in survivor["command"]  # or still the shell that is about to become it
    assert result["commandMs"] < 20_000
    assert box.ok("ps")["processes"] == []


def test_reading_standard_input_ends_at_once_C56(box: Sandbox) -> None:
    result = box.ok("run", call(argv=["cat"]))
    assert (result["exitCode"], result["stdout"]) == (0, "")


def test_background_child_that_never_stops_writing_does_not_hold_the_command_up_C56(box: Sandbox) -> None:
    result = box.ok("run", shell("yes & echo ok >&2", timeoutSeconds=30))
    assert result["exitCode"] == 0
    assert "ok\n" in result["stderr"]
    assert box.ok("ps")["processes"] == []


@pytest.mark.parametrize("ending", ["exit", "timeout", "kill"])
def test_double_forked_daemon_in_a_session_of_its_own_dies_C13(box: Sandbox, ending: str) -> None:
    (box.workspace / "daemon.py").write_text(DAEMON)
    script = "python3 daemon.py pid; while [ ! -s pid ]; do sleep 0.01; done"
    if ending == "exit":
        result = box.ok("run", shell(script))
        (survivor,) = result["survivors"]
        assert survivor["command"].endswith("python3 daemon.py pid")
        assert result["allDead"] is True
    elif ending == "timeout":
        result = box.failed("run", shell(f"{script}; sleep 600", timeoutSeconds=2))
        assert result["errorClass"] == "Timeout"
        assert result["allDead"] is True
    else:
        answers: list[Answer] = []
        thread = threading.Thread(target=lambda: answers.append(box.send("run", shell(f"{script}; sleep 600"), "t1c0")))
        thread.start()
        until(lambda: (box.workspace / "pid").exists() and (box.workspace / "pid").read_text())
        killed = box.ok("kill")
        assert killed["survivors"] == []
        assert killed["killed"] >= 3
        thread.join(20)
        assert answers[0].json["errorClass"] == "Killed"
        assert box.failed("run", shell(f"{script}; sleep 600"), "t1c0")["errorClass"] == "Killed"  # remembered
    assert (box.workspace / "pid").read_text()
    assert box.ok("ps")["processes"] == []
    assert len(children_of(box.pid)) == 0


def children_of(pid: int) -> list[str]:
    """Pids of a process's children, dead ones that nobody has reaped included."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_timeout_ends_the_tree_and_keeps_what_was_said_C13(box: Sandbox) -> None:
    begun = time.monotonic()
    result = box.failed("run", shell("echo before; sleep 600 & sleep 600", timeoutSeconds=1))
    assert time.monotonic() - begun < 15
    assert (result["errorClass"], result["stdout"]) == ("Timeout", "before\n")
    assert "after 1 s" in result["message"]
    assert box.ok("ps")["processes"] == []


def test_the_shortest_of_the_limits_holds_C15(tmp_path: Path) -> None:
    with Sandbox(tmp_path, limits={"stepSeconds": 1}) as box:
        result = box.failed("run", {"arguments": {"argv": ["sleep", "60"], "timeoutSeconds": 50}, "timeoutSeconds": 40})
        assert "after 1 s" in result["message"]


def test_orphans_are_reaped_while_a_command_runs_and_after_C13(box: Sandbox) -> None:
    result = box.ok("run", shell("for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.01 &); done; sleep 0.1; echo done"))
    assert result["stdout"] == "done\n"
    until(lambda: not children_of(box.pid))


def test_process_that_escapes_its_step_by_its_death_is_ended_C13(box: Sandbox) -> None:
    """The step's own process is killed as an OOM would: what hung below it falls to pid 1 and is ended there."""
    answers: list[Answer] = []
    body = shell("sleep 600 & echo $$ > pid; sleep 600")
    thread = threading.Thread(target=lambda: answers.append(box.send("run", body, "t1c0")))
    thread.start()
    until(lambda: (box.workspace / "pid").exists() and (box.workspace / "pid").read_text())
    (step,) = children_of(box.pid)
    os.kill(int(step), 9)
    thread.join(20)
    assert answers[0].json["errorClass"] == "OOMKilled"
    assert box.ok("ps")["processes"] == []


def test_kill_without_anything_to_kill_proves_quiet_C12(box: Sandbox) -> None:
    assert box.ok("kill", b"")["survivors"] == []


def test_kill_is_carried_out_each_time_C12(box: Sandbox) -> None:
    for _ in range(2):
        thread = threading.Thread(target=lambda: box.send("run", shell("touch up; sleep 600")))
        thread.start()
        until((box.workspace / "up").exists)
        assert box.ok("kill", b"{}", "kill1")["survivors"] == []
        thread.join(20)
        (box.workspace / "up").unlink()
    assert box.ok("ps")["processes"] == []


def test_ps_tells_what_runs_C12(box: Sandbox) -> None:
    thread = threading.Thread(target=lambda: box.send("run", call(argv=["sleep", "601"])))
    thread.start()
    until(lambda: any(entry["command"] == "sleep 601" for entry in box.ok("ps")["processes"]))
    box.ok("kill")
    thread.join(20)


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_output_is_cut_while_it_is_drained_in_bounded_memory_C41(tmp_path: Path, stream: str) -> None:
    """The server and its steps get 160 MB of address space; a hundred million bytes pass through."""
    launcher = ["prlimit", f"--as={160 << 20}"]
    with Sandbox(tmp_path, limits={"outputBytes": 1000}, launcher=launcher) as box:
        script = f"printf first {stream}; head -c 100000000 /dev/zero {stream}; printf last {stream}"
        result = box.ok("run", shell(script))
        said = result["stdout"] + result["stderr"]
        assert (result["exitCode"], result["truncated"], result["bytesTotal"]) == (0, True, 100_000_009)
        assert said.startswith("first\0")
        assert said.endswith("\0last")
        assert "[... 99999009 bytes cut ...]" in said
        assert len(said) < 1100


def test_both_streams_share_the_cap_C41(box: Sandbox) -> None:
    body = shell("head -c 3000 /dev/zero | tr '\\0' a; printf error >&2", maxOutputBytes=1000)
    result = box.ok("run", body)
    assert result["stderr"] == "error"
    assert result["stdout"].count("a") == 995
    assert box.ok("run", shell("printf 12345; printf 67890 >&2", maxOutputBytes=10))["truncated"] is False


OUTPUTS = {
    "NUL": b"a\0b", "lone surrogate": b"\xed\xa0\x80", "UTF-16": "\u20acx\n".encode("utf-16"), "latin": b"caf\xe9",
    "text": "gr\u00fc\u00df \U0001f600".encode(), "escapes": b"\x1b[2J\r\n\x07", "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("case", OUTPUTS)
def test_any_bytes_of_output_arrive_as_they_were_C64(box: Sandbox, case: str) -> None:
    (box.workspace / "out").write_bytes(OUTPUTS[case])
    result = box.ok("run", shell("cat out; cat out >&2"))
    for name in ("stdout", "stderr"):
        assert (name in result) != (name + "Base64" in result)
        got = result[name].encode() if name in result else base64.b64decode(result[name + "Base64"])
        assert got == OUTPUTS[case]


def test_argv_is_no_shell_string_R15(box: Sandbox) -> None:
    assert box.ok("run", call(argv=["echo", "$HOME", ";", "a  b", "*"]))["stdout"] == "$HOME ; a  b *\n"


@pytest.mark.parametrize(
    ("argv", "kind", "told"),
    [
        (["no-such-program"], "NotFound", "no-such-program in PATH="),
        (["/no/such"], "NotFound", "/no/such"),
        (["./plain"], "SpawnFailed", "Permission denied"),
        (["./bad"], "SpawnFailed", "Exec format error"),
        (["./gone"], "NotFound", "interpreter"),
        ([], "InvalidArguments", "arguments.argv"),
        ([""], "InvalidArguments", "arguments.argv"),
        (["a\0b"], "InvalidArguments", "NUL"),
        (["echo", "\ud800"], "InvalidArguments", "arguments.argv"),
        ("echo x", "InvalidArguments", "no shell string"),
        (["echo", 1], "InvalidArguments", "arguments.argv"),
        (["echo"] * 257, "InvalidArguments", "256"),
    ],
)
def test_command_that_cannot_start_says_why_R15(box: Sandbox, argv: object, kind: str, told: str) -> None:
    (box.workspace / "plain").write_text("text")
    for name, content in (("bad", b"\x7fELFnonsense"), ("gone", b"#!/no/such/interpreter\n")):
        (box.workspace / name).write_bytes(content)
        (box.workspace / name).chmod(0o755)
    result = box.failed("run", call(argv=argv))
    assert result["errorClass"] == kind
    assert told in result["message"]


def test_exit_codes_and_signals_are_told_apart_R15(box: Sandbox) -> None:
    failed = box.ok("run", shell("exit 3"))
    assert (failed["exitCode"], failed["signal"]) == (3, None)
    ended = box.ok("run", shell("kill -SEGV $$"))
    assert (ended["exitCode"], ended["signal"]) == (None, "SIGSEGV")


def test_command_dies_of_a_closed_pipe_as_anywhere_R15(box: Sandbox) -> None:
    """The interpreter ignores SIGPIPE; a command that inherited that would never end."""
    result = box.ok("run", call(argv=["bash", "-c", "yes | head -n 1; echo ${PIPESTATUS[0]}"]))
    assert result["stdout"] == "y\n141\n"


def test_commands_get_nothing_of_the_server_R20(tmp_path: Path) -> None:
    image = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "IMAGE_VARIABLE": "kept"}
    image["PYTHONPATH"] = str(Path(__file__).resolve().parents[2] / "sandbox-images" / "toolserver")
    with Sandbox(tmp_path, environment={**image, "HOST_IP": "10.0.0.1", "POD_IPS": "10.1.0.1"}) as box:
        lines = box.ok("run", {"arguments": {"argv": ["env"], "env": {"OWN": "1"}}})["stdout"].splitlines()
        given = dict(line.split("=", 1) for line in lines)
        assert given["IMAGE_VARIABLE"] == "kept"
        assert given["OWN"] == "1"
        assert given["HOME"].startswith(str(tmp_path))
        ours = {"HOME", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"}  # so that any UID can work
        assert set(given) == {*image, "OWN", *ours}
        inherited = box.ok("run", call(argv=["sh", "-c", "ls /proc/self/fd"]))["stdout"].split()
        assert inherited == ["0", "1", "2", "3"]  # 3 is the listing's own


def test_command_runs_in_the_folder_it_names_inside_the_workspace_R20(box: Sandbox) -> None:
    (box.workspace / "sub").mkdir()
    assert box.ok("run", call(argv=["pwd"]))["stdout"] == f"{box.workspace}\n"
    assert box.ok("run", call(argv=["pwd"], cwd="sub"))["stdout"] == f"{box.workspace}/sub\n"
    assert box.failed("run", call(argv=["pwd"], cwd="../"))["errorClass"] == "PathEscape"
    assert box.failed("run", call(argv=["pwd"], cwd="none"))["errorClass"] == "NotFound"


@pytest.mark.parametrize(
    "body",
    [
        {"arguments": {"argv": ["true"], "timeout": 3}},
        {"arguments": {"argv": ["true"]}, "stdin": "x"},
        {"arguments": {"argv": ["true"], "timeoutSeconds": 0}},
        {"arguments": {"argv": ["true"], "timeoutSeconds": True}},
        {"arguments": {"argv": ["true"], "env": {"A=B": "x"}}},
        {"arguments": ["true"]},
        {"argv": ["true"]},
    ],
    ids=str,
)
def test_misspelt_or_wrong_member_is_refused_by_name_R15(box: Sandbox, body: dict[str, object]) -> None:
    result = box.failed("run", body)
    assert result["errorClass"] == "InvalidArguments"
    assert "arguments" in result["message"] or "stdin" in result["message"]


def test_sandbox_tool_gets_the_very_bytes_that_were_judged_C17(box: Sandbox) -> None:
    arguments = b'{ "n":1.10, "big":123456789012345678901234567890, "e":1e400, "t":"\\u20ac" }'
    raw = b'{"argv":["cat"], "arguments" : ' + arguments + b', "timeoutSeconds":9}'
    assert box.ok("tool", raw)["stdout"].encode() == arguments


def test_verification_reads_its_own_report_only_C63(box: Sandbox) -> None:
    (box.workspace / "report.xml").write_text("<forged/>")
    nothing = box.ok("verify", {"argv": ["true"], "reportPath": "report.xml"})
    assert nothing["report"]["found"] is False
    written = box.ok("verify", {"argv": ["sh", "-c", "echo real > report.xml; exit 1"], "reportPath": "report.xml"})
    assert (written["exitCode"], written["report"]["content"]) == (1, "real\n")


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A cgroup with 64 MiB, on whichever version is here."""
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    if os.geteuid() != 0 or not (unified or MEMORY.exists()):
        pytest.skip("memory limits of a cgroup can only be set by root")
    group = (Path("/sys/fs/cgroup") if unified else MEMORY) / f"agentrun-test-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    (group / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(64 << 20))
    yield group
    until(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


def test_memory_that_runs_out_is_told_with_the_limit_C57(tmp_path: Path, memory_group: Path) -> None:
    """The container's own view: its cgroup stands where the kernel shows cgroups."""
    mount = f'mount --bind {memory_group} {memory_group.parent} && exec "$@"'
    enter = f"echo 0 > {memory_group}/cgroup.procs && {mount}"
    with Sandbox(tmp_path, launcher=["sh", "-c", enter, "sh"]) as box:
        eat = "python3 -c 'x = bytearray(300 << 20); x[::4096] = b\"x\" * len(x[::4096])'"
        result = box.failed("run", shell(f"{eat}; echo went on"))
        assert (result["errorClass"], result["limitBytes"]) == ("OOMKilled", 64 << 20)
        assert str(64 << 20) in result["message"]
        assert box.ok("run", call(argv=["true"]))["exitCode"] == 0


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder below /tmp that every UID can reach."""
    folder = Path("/tmp") / f"agentrun-test-{uuid.uuid4().hex[:8]}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def test_any_uid_can_work_with_git_node_and_pip_C61(open_folder: Path) -> None:
    """UID 1000930000 without a name or a home, in a workspace whose owner is another (as the kubelet makes it)."""
    from tests.cluster.shell import need_packages

    need_packages({"/usr/bin/git": "git", "/usr/bin/node": "nodejs", "/usr/bin/pip3": "python3-pip"})
    uid = "1000930000"
    assemble = Path(__file__).resolve().parents[2] / "sandbox-images" / "tool-server" / "assemble.py"
    tree = open_folder / "agentrun"
    source = assemble.parent.parent / "toolserver"
    subprocess.run(["/usr/bin/python3.11", assemble, source, tree], check=True, timeout=60)
    python = [tree / "lib/ld.so", "--library-path", tree / "lib", tree / "bin/python3", "-I", "-S", "-X", "utf8"]
    launcher = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/", "TMPDIR": str(open_folder / "tmp")}
    for name in ("workspace", "state", "tmp"):
        (open_folder / name).mkdir()
        (open_folder / name).chmod(0o777)
    with Sandbox(open_folder, environment=environment, python=python, launcher=launcher) as box:
        assert box.ok("run", call(argv=["id", "-u"]))["stdout"].strip() == uid
        git = "git init -q . && echo a > a && git add a && git -c user.name=x -c user.email=x@y commit -qm m"
        assert box.ok("run", shell(f"{git} && git status --short && git log --format=%s"))["stdout"] == "m\n"
        node = "require('fs').writeFileSync(require('os').homedir() + '/x', 'y'); console.log(require('os').tmpdir())"
        assert box.ok("run", call(argv=["node", "-e", node]))["stderr"] == ""
        pip = box.ok("run", shell("python3 -m pip --version && python3 -m pip cache dir && touch $HOME/w $TMPDIR/w"))
        assert (pip["exitCode"], pip["stderr"]) == (0, "")


def test_every_child_is_reaped_after_a_thousand_processes_C13(box: Sandbox) -> None:
    for _ in range(5):
        box.ok("run", shell("i=0; while [ $i -lt 200 ]; do /bin/true & i=$((i+1)); done; wait"))
    until(lambda: not children_of(box.pid))
