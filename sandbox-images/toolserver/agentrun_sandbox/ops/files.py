"""`read`, `write` and `edit`: one file."""

import os
import stat

from agentrun_sandbox.encoding import base64_decode, put_bytes
from agentrun_sandbox.errors import StepError
from agentrun_sandbox.ops.context import Context
from agentrun_sandbox.paths import Place
from agentrun_sandbox.sodium import sha256_digest

_MANY = 1 << 31
MAX_LINES_TOLD = 10


def read(context: Context) -> "dict[str, object]":
    """Whole lines from `offset` (from 1), at most `limit`, within the output cap."""
    arguments = context.body.inner("arguments")
    path = arguments.text("path")
    offset, limit = arguments.integer("offset", 1, 1, _MANY), arguments.integer("limit", _MANY, 1, _MANY)
    keep = context.finish(arguments)
    data = _content(context, path)
    lines = data.splitlines(keepends=True) if b"\r" not in data else _newline_lines(data)
    wanted = b"".join(lines[offset - 1 : offset - 1 + limit])
    result: dict[str, object] = {
        "path": path,
        "startLine": offset,
        "linesTotal": len(lines),
        "bytesTotal": len(data),
        "digest": sha256_digest(data),
        "truncated": len(wanted) > keep,
    }
    put_bytes(result, "content", _cut(wanted, keep))
    return result


def write(context: Context) -> "dict[str, object]":
    """A whole file, folders on the way included; replaced in one step, so nobody sees half of it."""
    arguments = context.body.inner("arguments")
    path, executable = arguments.text("path"), arguments.flag("executable")
    if arguments.has("content") == arguments.has("contentBase64"):
        raise StepError("InvalidArguments", "give exactly one of arguments.content and arguments.contentBase64")
    data = (
        _given(arguments.text("content"), None)
        if arguments.has("content")
        else _given(None, arguments.text("contentBase64"))
    )
    context.finish(arguments)
    if len(data) > context.limits.file_bytes:
        raise StepError("TooLarge", f"{len(data)} bytes; a file may have {context.limits.file_bytes}")
    place = context.workspace.find(path, make_folders=True)
    created = replace(place, data, executable)
    return {"path": path, "bytesTotal": len(data), "digest": sha256_digest(data), "created": created}


def edit(context: Context) -> "dict[str, object]":
    """Replace an exact string that occurs exactly `count` times (1)."""
    arguments = context.body.inner("arguments")
    path, old, new = arguments.text("path"), arguments.text("old"), arguments.text("new")
    count = arguments.integer("count", 1, 1, 1_000_000)
    context.finish(arguments)
    before, after = _given(old, None), _given(new, None)
    if not before:
        raise StepError("InvalidArguments", "arguments.old must not be empty: to fill a new file use write")
    if before == after:
        raise StepError("InvalidArguments", "arguments.old and arguments.new are the same: nothing would change")
    data = _content(context, path)
    found = data.count(before)
    if found != count:
        raise StepError("Conflict", _mismatch(path, data, before, found, count))
    result = data.replace(before, after)
    if len(result) > context.limits.file_bytes:
        raise StepError("TooLarge", f"{len(result)} bytes; a file may have {context.limits.file_bytes}")
    replace(context.workspace.find(path), result, None)
    return {
        "path": path, "replacements": found, "lines": _line_numbers(data, before),
        "bytesTotal": len(result), "digest": sha256_digest(result),
    }  # fmt: skip


def replace(place: Place, data: bytes, executable: "bool | None") -> bool:
    """Put a regular file at a place; True if nothing stood there. Keeps the mode of the old one unless told."""
    try:
        old = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        old = None
    if place.name == b"." or (old is not None and not stat.S_ISREG(old.st_mode)):
        raise StepError("NotAFile", "path names a folder, device, pipe or socket, not a regular file")
    mode = 0o644 if old is None else stat.S_IMODE(old.st_mode) & 0o777
    if executable is not None:
        mode = mode | 0o111 if executable else mode & ~0o111
    temporary = b".agentrun-" + os.urandom(8).hex().encode()
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=place.folder)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            os.fchmod(fd, mode)
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except OSError as error:
        raise StepError("NotWritable", f"the file cannot be written: {error.strerror}") from None
    return old is None


def _given(text: "str | None", base64: "str | None") -> bytes:
    try:
        return base64_decode(base64) if base64 is not None else (text or "").encode("utf-8")
    except UnicodeEncodeError:
        raise StepError("InvalidArguments", "the text holds a lone surrogate: give contentBase64") from None
    except ValueError:
        raise StepError("InvalidArguments", "arguments.contentBase64 is no padded standard base64") from None


def _content(context: Context, path: str) -> bytes:
    fd, status = context.workspace.open_file(path)
    with os.fdopen(fd, "rb") as file:
        if status.st_size > context.limits.file_bytes:
            message = (
                f"{path} has {status.st_size} bytes; at most {context.limits.file_bytes} can be handled: use a command"
            )
            raise StepError("TooLarge", message)
        return file.read(context.limits.file_bytes)


def _newline_lines(data: bytes) -> "list[bytes]":
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _cut(data: bytes, keep: int) -> bytes:
    """At most `keep` bytes; text is not cut inside a character."""
    if len(data) <= keep:
        return data
    for shorter in range(4):
        piece = data[: keep - shorter]
        try:
            piece.decode("utf-8")
        except UnicodeDecodeError:
            continue
        return piece
    return data[:keep]


def _line_numbers(data: bytes, wanted: bytes) -> "list[int]":
    lines: list[int] = []
    at = data.find(wanted)
    while at >= 0 and len(lines) < MAX_LINES_TOLD:
        lines.append(data.count(b"\n", 0, at) + 1)
        at = data.find(wanted, at + len(wanted))
    return lines


def _mismatch(path: str, data: bytes, wanted: bytes, found: int, count: int) -> str:
    if found:
        lines = ", ".join(map(str, _line_numbers(data, wanted)))
        told = f"old occurs {found} times in {path} (lines {lines}), count is {count}"
        return f"{told}: give more of its surroundings, or count {found}"
    told = f"old does not occur in {path}"
    if b"\r\n" in data and wanted.replace(b"\n", b"\r\n") in data:
        return f"{told} as given: the file's lines end with CR LF"
    if b"".join(wanted.split()) in b"".join(data.split()):
        return f"{told} as given, only with other white space: read the file again and copy it exactly"
    return f"{told}: read the file again and copy it exactly"
