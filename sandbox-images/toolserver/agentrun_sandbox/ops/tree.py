"""`list` and `search`: many files, bounded answers."""

import os
import re
import stat

from agentrun_sandbox import TYPE_CHECKING
from agentrun_sandbox.encoding import shown
from agentrun_sandbox.errors import StepError
from agentrun_sandbox.ops.context import Context
from agentrun_sandbox.paths import FILE_FLAGS, FOLDER_FLAGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    Found = tuple[bytes, int, bytes, os.stat_result]

MAX_ENTRIES = 2000
MAX_MATCHES = 1000
MAX_DEPTH = 200  # one open folder a level
MAX_LINE_CHARACTERS = 500
MAX_PATTERN = 1000
SKIPPED_FOLDERS = (b".git",)  # its objects are no text, and a listing of them helps nobody
_PROBE_BYTES = 8192


def list_files(context: Context) -> "dict[str, object]":
    """Entries below a folder, sorted by path, `depth` levels (1)."""
    arguments = context.body.inner("arguments")
    path, depth = arguments.text("path", "."), arguments.integer("depth", 1, 1, 64)
    room = context.finish(arguments)
    root = context.workspace.open_folder(path)
    entries: list[dict[str, object]] = []
    truncated = False
    for relative, folder, name, status in walk(root, depth):
        room -= len(relative)
        if len(entries) == MAX_ENTRIES or room < 0:
            truncated = True
            break
        entries.append(_entry(relative, folder, name, status))
    return {"path": path, "entries": entries, "truncated": truncated}


def search(context: Context) -> "dict[str, object]":
    """Lines that a regular expression (Python's `re`) finds; binary files and `.git` are left out."""
    arguments = context.body.inner("arguments")
    pattern, path = arguments.text("pattern", None, MAX_PATTERN), arguments.text("path", ".")
    most = arguments.integer("maxMatches", 100, 1, MAX_MATCHES)
    room = context.finish(arguments)
    try:
        expression = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise StepError("InvalidArguments", f"arguments.pattern is no regular expression: {error}") from None
    matches: list[dict[str, object]] = []
    files = skipped = 0
    for relative, fd in _searched(context, path):
        text = _text(fd, context.limits.file_bytes)
        if text is None:
            skipped += 1
            continue
        files += 1
        matches += _matches(expression, relative, text, most + 1 - len(matches))
        if len(matches) > most:
            break
    told = _fitting(matches[:most], room)
    return {
        "matches": told, "truncated": len(told) < len(matches), "filesSearched": files, "filesSkipped": skipped,
    }  # fmt: skip


def _fitting(matches: "list[dict[str, object]]", room: int) -> "list[dict[str, object]]":
    """As many of them as the output cap allows."""
    for position, match in enumerate(matches):
        room -= len(str(match["path"])) + len(str(match["text"]))
        if room < 0:
            return matches[:position]
    return matches


def walk(root: int, depth: int, skip: "tuple[bytes, ...]" = SKIPPED_FOLDERS) -> "Iterator[Found]":
    """(path, folder, name, status) of everything below an open folder, by path; links are not followed."""
    names = sorted(os.fsencode(name) for name in os.listdir(root))
    for name in names:
        try:
            status = os.stat(name, dir_fd=root, follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield name, root, name, status
        if depth > 1 and stat.S_ISDIR(status.st_mode) and name not in skip:
            yield from _below(root, name, depth, skip)


def walk_all(root: int) -> "Iterator[Found]":
    """Everything, `.git` too."""
    return walk(root, MAX_DEPTH, ())


def _below(root: int, name: bytes, depth: int, skip: "tuple[bytes, ...]") -> "Iterator[Found]":
    try:
        inner = os.open(name, FOLDER_FLAGS, dir_fd=root)
    except OSError:
        return  # gone, or closed to us: the entry itself is listed
    try:
        for relative, folder, leaf, status in walk(inner, depth - 1, skip):
            yield name + b"/" + relative, folder, leaf, status
    finally:
        os.close(inner)


def _entry(relative: bytes, folder: int, name: bytes, status: os.stat_result) -> "dict[str, object]":
    entry: dict[str, object] = {"path": shown(relative), "type": _type(status.st_mode)}
    if stat.S_ISREG(status.st_mode):
        entry |= {"bytes": status.st_size, "executable": bool(status.st_mode & 0o111)}
    if stat.S_ISLNK(status.st_mode):
        entry["target"] = shown(os.readlink(name, dir_fd=folder))
    return entry


def _type(mode: int) -> str:
    for test, name in ((stat.S_ISREG, "File"), (stat.S_ISDIR, "Directory"), (stat.S_ISLNK, "Link")):
        if test(mode):
            return name
    return "Other"


def _searched(context: Context, path: str) -> "Iterator[tuple[bytes, int]]":
    place = context.workspace.find(path)
    try:
        status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        raise StepError("NotFound", f"there is no file or folder {path}") from None
    if not stat.S_ISDIR(status.st_mode):
        fd, _ = context.workspace.open_file(path)
        yield os.fsencode(path), fd
        return
    for relative, folder, name, found in walk(context.workspace.open_folder(path), MAX_DEPTH):
        if stat.S_ISREG(found.st_mode):
            try:
                yield relative, os.open(name, FILE_FLAGS, dir_fd=folder)
            except OSError:
                continue


def _text(fd: int, most: int) -> "str | None":
    """A text file's content; None for binary or too large ones. Closes the descriptor."""
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_size > most:
            return None
        data = file.read(most)
    return None if b"\0" in data[:_PROBE_BYTES] else data.decode("utf-8", "replace")


def _matches(expression: "re.Pattern[str]", relative: bytes, text: str, most: int) -> "list[dict[str, object]]":
    found: list[dict[str, object]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if expression.search(line):
            found.append({"path": shown(relative), "line": number, "text": line.rstrip("\r")[:MAX_LINE_CHARACTERS]})
            if len(found) == most:
                break
    return found
