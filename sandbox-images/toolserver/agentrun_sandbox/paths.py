"""Paths of file operations: walked name by name on folder descriptors, so nothing leads out of the workspace.

Symbolic links are followed by this walk, never by the kernel, and only while they stay inside; a rename in between
changes nothing, because each step opens what stands there with O_NOFOLLOW.
"""

import os
import stat

from agentrun_sandbox.encoding import shown
from agentrun_sandbox.errors import StepError

MAX_LINKS = 40
MAX_PATH_BYTES = 4096
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Place:
    """A name inside an open folder; name `.` is the folder itself."""

    def __init__(self, folder: int, name: bytes) -> None:
        self.folder = folder
        self.name = name


class Workspace:
    """The tree that file operations may touch."""

    def __init__(self, root: str) -> None:
        self.root = os.fsencode(root.rstrip("/") or "/")
        self.fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def find(self, path: str, *, make_folders: bool = False) -> Place:
        """Where a path leads; its last name need not exist. Raises StepError: PathEscape, NotFound, NotADirectory."""
        todo = self._names(path)
        stack = [os.dup(self.fd)]
        links = 0
        while todo:
            name = todo.pop(0)
            if name == b"..":
                if len(stack) == 1:
                    raise _escape(path)
                os.close(stack.pop())
                continue
            target = _link_target(stack[-1], name)
            if target is not None:
                links += 1
                if links > MAX_LINKS:
                    raise StepError("InvalidArguments", f"{_told(path)} leads through more than {MAX_LINKS} links")
                todo = self._link_names(target, path, stack) + todo
                continue
            if not todo:
                return Place(stack[-1], name)
            stack.append(_enter(stack[-1], name, path, make=make_folders))
        return Place(stack[-1], b".")

    def open_file(self, path: str) -> "tuple[int, os.stat_result]":
        """A regular file for reading. Raises StepError."""
        place = self.find(path)
        try:
            fd = os.open(place.name, FILE_FLAGS, dir_fd=place.folder)
        except FileNotFoundError:
            raise StepError("NotFound", f"there is no file {_told(path)}") from None
        except OSError as error:
            raise StepError("NotReadable", f"{_told(path)} cannot be opened: {error.strerror}") from None
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket"
            raise StepError("NotAFile", f"{_told(path)} is {kind}, not a regular file")
        return fd, status

    def open_folder(self, path: str) -> int:
        """A folder. Raises StepError."""
        place = self.find(path)
        try:
            return os.open(place.name, FOLDER_FLAGS, dir_fd=place.folder)
        except FileNotFoundError:
            raise StepError("NotFound", f"there is no folder {_told(path)}") from None
        except NotADirectoryError:
            raise StepError("NotADirectory", f"{_told(path)} is no folder") from None

    def _names(self, path: str) -> "list[bytes]":
        raw = _encoded(path)
        if raw.startswith(b"/"):
            if raw != self.root and not raw.startswith(self.root + b"/"):
                raise _escape(path)
            raw = raw[len(self.root) :]
        return _split(raw)

    def _link_names(self, target: bytes, path: str, stack: "list[int]") -> "list[bytes]":
        if not target.startswith(b"/"):
            return _split(target)
        if target != self.root and not target.startswith(self.root + b"/"):
            raise _escape(path)
        while len(stack) > 1:
            os.close(stack.pop())
        return _split(target[len(self.root) :])


def _encoded(path: str) -> bytes:
    if not path or "\0" in path:
        raise StepError("InvalidArguments", "path must be a text that is not empty and holds no NUL")
    try:
        raw = path.encode("utf-8")
    except UnicodeEncodeError:
        raise StepError("InvalidArguments", "path holds a lone surrogate") from None
    if len(raw) > MAX_PATH_BYTES:
        raise StepError("InvalidArguments", f"path is longer than {MAX_PATH_BYTES} bytes")
    return raw


def _split(raw: bytes) -> "list[bytes]":
    return [name for name in raw.split(b"/") if name not in (b"", b".")]


def _link_target(folder: int, name: bytes) -> "bytes | None":
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None  # no link, or nothing at all


def _enter(folder: int, name: bytes, path: str, *, make: bool) -> int:
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise StepError("NotFound", f"there is no folder {shown(name)} on the way to {_told(path)}") from None
    except NotADirectoryError:
        raise StepError("NotADirectory", f"{shown(name)} on the way to {_told(path)} is no folder") from None
    except OSError as error:
        raise StepError("NotReadable", f"{shown(name)} on the way to {_told(path)}: {error.strerror}") from None
    os.mkdir(name, 0o755, dir_fd=folder)
    return os.open(name, FOLDER_FLAGS, dir_fd=folder)


def _escape(path: str) -> StepError:
    return StepError("PathEscape", f"{_told(path)} leads out of the workspace: give a path inside it")


def _told(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()[:300]
