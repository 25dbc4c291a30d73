"""`run`, `tool` and `verify`: a command of the user's image."""

import os
import signal
import time

from agentrun_sandbox import cgroup
from agentrun_sandbox.arguments import Arguments, raw_member
from agentrun_sandbox.command import Command, Ended, Output
from agentrun_sandbox.encoding import put_bytes
from agentrun_sandbox.environment import command_environment, image_environment
from agentrun_sandbox.errors import StepError
from agentrun_sandbox.ops.context import Context
from agentrun_sandbox.paths import Place
from agentrun_sandbox.proc import become_subreaper, read_file


def run(context: Context) -> "dict[str, object]":
    """The model's command, standard input /dev/null."""
    arguments = context.body.inner("arguments")
    argv = arguments.argv("argv")
    return _execute(context, arguments, argv, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def tool(context: Context) -> "dict[str, object]":
    """The template's command; the model's arguments come as JSON on standard input, the very bytes that were judged."""
    argv = context.body.argv("argv")
    context.body.inner("arguments")
    stdin = os.memfd_create("arguments")
    os.write(stdin, raw_member(context.raw, "arguments"))
    os.lseek(stdin, 0, os.SEEK_SET)
    return _execute(context, Arguments({}, "arguments"), argv, stdin)


def verify(context: Context) -> "dict[str, object]":
    """The template's verification command and its report; a report that stands there already is removed first."""
    arguments = Arguments({"argv": context.body.argv("argv")}, "")
    report = context.body.text("reportPath", "")
    if report:
        place = context.workspace.find(report)
        _remove(place)
    result = _execute(context, arguments, arguments.argv("argv"), os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    if report:
        result["report"] = _report(context, report)
    return result


def _execute(context: Context, arguments: Arguments, argv: "list[str]", stdin: int) -> "dict[str, object]":
    seconds = context.timeout(arguments)
    keep = context.output_bytes()
    cwd = context.workspace.open_folder(arguments.text("cwd", "."))
    extra = arguments.environment("env")
    arguments.done()
    context.body.done()
    become_subreaper()
    environment = command_environment(image_environment(), context.workspace_path, extra)
    command = Command(argv, cwd, environment, keep, stdin, own_process_limit(context.limits.processes))
    kills_before, begun = cgroup.oom_kills(), time.monotonic()
    ended = command.run(seconds)
    result = _told(ended, command, keep)
    result["commandMs"] = int((time.monotonic() - begun) * 1000)
    _raise_typed(context, ended, kills_before, seconds, result)
    return result


def _told(ended: Ended, command: Command, keep: int) -> "dict[str, object]":
    exited = os.WIFEXITED(ended.status)
    result: dict[str, object] = {
        "exitCode": os.WEXITSTATUS(ended.status) if exited else None,
        "signal": None if exited else _signal_name(os.WTERMSIG(ended.status)),
        "survivors": ended.survivors,
        "allDead": ended.all_dead,
    }
    out, err = share(command.stdout, command.stderr, keep)
    put_bytes(result, "stdout", out)
    put_bytes(result, "stderr", err)
    result["truncated"] = command.stdout.total + command.stderr.total > keep
    result["bytesTotal"] = command.stdout.total + command.stderr.total
    return result


def share(out: Output, err: Output, keep: int) -> "tuple[bytes, bytes]":
    """Both streams in `keep` bytes together: each gets half, and what the other does not use."""
    out_room = max(keep - keep // 2, keep - err.total)
    err_room = max(keep // 2, keep - out.total)
    return _shrunk(out, out_room), _shrunk(err, err_room)


def _shrunk(output: Output, room: int) -> bytes:
    value = output.value()
    if output.total <= room:
        return value
    again = Output(room)
    again.add(value)
    again.total = output.total
    return again.value()


def _raise_typed(
    context: Context, ended: Ended, kills_before: "int | None", seconds: int, result: "dict[str, object]"
) -> None:
    if ended.timed_out:
        raise StepError("Timeout", f"the command was ended after {seconds} s with everything it had started", result)
    killed = os.WIFSIGNALED(ended.status) and os.WTERMSIG(ended.status) == signal.SIGKILL
    kills = cgroup.oom_kills()
    unknown = kills_before is None or kills is None  # the counter cannot be read; nobody else sends this signal
    out_of_memory = killed if unknown else kills != kills_before
    if out_of_memory:
        limit = cgroup.memory_limit() or context.limits.memory_bytes
        told = f"of {limit} bytes" if limit else "of the sandbox"
        result["limitBytes"] = limit or None
        raise StepError("OOMKilled", f"the kernel ended the command, or a part of it: the memory limit {told}", result)


def own_process_limit(wanted: int) -> int:
    """The limit, if this user namespace is the Pod's own; 0 where the node's processes are counted with it."""
    ids = read_file("/proc/self/uid_map").split()
    return wanted if ids[1:2] != [b"0"] else 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _remove(place: Place) -> None:
    try:
        os.unlink(place.name, dir_fd=place.folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StepError("InvalidArguments", f"reportPath must name a file: {error.strerror}") from None


def _report(context: Context, path: str) -> "dict[str, object]":
    try:
        fd, status = context.workspace.open_file(path)
    except StepError as error:
        return {"found": False, "message": error.message}
    most = context.limits.file_bytes
    with os.fdopen(fd, "rb") as file:
        data = file.read(most)
    result: dict[str, object] = {"found": True, "bytesTotal": status.st_size, "truncated": status.st_size > most}
    put_bytes(result, "content", data)
    return result
