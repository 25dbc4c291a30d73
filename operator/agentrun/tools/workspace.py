"""A workspace as one tar: relative paths, sorted, mtime 0, no links out (design 8). What comes in is untrusted."""

import io
import tarfile
from collections.abc import Iterable, Mapping
from posixpath import normpath

import msgspec

from agentrun.core.errors import AgentrunError

MAX_ENTRIES = 100_000
MAX_PATH = 4096
_REGULAR, _EXECUTABLE = 0o644, 0o755


class BadWorkspace(AgentrunError):
    """The bytes are no workspace tar within the bounds; names the entry."""


class Entry(msgspec.Struct, frozen=True):
    """A regular file, or a symbolic link inside the workspace if `link` is set."""

    data: bytes = b""
    executable: bool = False
    link: str = ""


class Workspace(msgspec.Struct, frozen=True):
    """Files by relative path, empty directories, and what was left out (devices, links that lead out)."""

    files: Mapping[str, Entry] = {}
    directories: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def read(data: bytes, max_bytes: int) -> Workspace:
    """The workspace in a tar. Raises BadWorkspace for one beyond `max_bytes` of content, broken or leading out."""
    if len(data) > max_bytes + 1024 * MAX_ENTRIES:
        raise BadWorkspace(f"the tar has {len(data)} bytes, the limit is {max_bytes} of content")
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:", errorlevel=2) as archive:
            return _Reader(archive, max_bytes).read()
    except (tarfile.TarError, ValueError, OverflowError, EOFError, OSError) as error:
        raise BadWorkspace(f"not a readable tar: {error}") from None


class _Reader:
    def __init__(self, archive: tarfile.TarFile, max_bytes: int) -> None:
        self._archive = archive
        self._left = max_bytes
        self._files: dict[str, Entry] = {}
        self._directories: set[str] = set()
        self._dropped: list[str] = []

    def read(self) -> Workspace:
        for count, member in enumerate(self._archive):
            if count >= MAX_ENTRIES:
                raise BadWorkspace(f"more than {MAX_ENTRIES} entries")
            path = relative(member.name)
            if path is None:
                if member.isdir() and normpath(member.name) == ".":
                    continue
                raise BadWorkspace(f"entry {member.name[:200]!r} leads out of the workspace")
            self._take(member, path)
        return self._consistent()

    def _take(self, member: tarfile.TarInfo, path: str) -> None:
        if member.isdir():
            self._directories.add(path)
        elif member.issym():
            self._link(member, path)
        elif member.isreg() and not member.issparse():
            self._files[path] = Entry(self._content(member), bool(member.mode & 0o111))
        else:
            self._dropped.append(path)

    def _link(self, member: tarfile.TarInfo, path: str) -> None:
        if not inside(path, member.linkname):
            self._dropped.append(path)
            self._files.pop(path, None)
        else:
            self._files[path] = Entry(link=member.linkname)

    def _content(self, member: tarfile.TarInfo) -> bytes:
        self._left -= member.size
        if member.size < 0 or self._left < 0:
            raise BadWorkspace(f"the content exceeds the limit at entry {member.name[:200]!r}")
        handle = self._archive.extractfile(member)
        data = b"" if handle is None else handle.read(member.size + 1)
        if len(data) != member.size:
            raise BadWorkspace(f"entry {member.name[:200]!r} is cut")
        return data

    def _consistent(self) -> Workspace:
        for path in self._files:
            for parent in parents(path):
                if parent in self._files:
                    raise BadWorkspace(f"entry {path[:200]!r} lies below {parent[:200]!r}, which is no directory")
        directories = tuple(sorted(self._directories - set(self._files)))
        return Workspace(self._files, directories, tuple(self._dropped))


def relative(name: str) -> str | None:
    """The plain relative path, or None for one that is absolute, climbs, is empty, too long or holds NUL."""
    if not name or name.startswith("/") or "\x00" in name or len(name) > MAX_PATH:
        return None
    path = normpath(name)
    return None if path in (".", "..") or path.startswith("../") else path


def inside(path: str, target: str) -> bool:
    """Whether a link at `path` to `target` stays in the workspace whatever other such links stand on its way.

    So `..` may only stand in front: behind a name that is itself a link it would count from somewhere else.
    """
    if not target or target.startswith("/") or "\x00" in target:
        return False
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    return ups <= path.count("/") and ".." not in parts[ups:]


def parents(path: str) -> Iterable[str]:
    """Every directory above a path, nearest last."""
    parts = path.split("/")[:-1]
    return ("/".join(parts[: index + 1]) for index in range(len(parts)))


def write(workspace: Workspace) -> bytes:
    """The one tar of this workspace: the same content gives the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted({*workspace.files, *workspace.directories}):
            entry = workspace.files.get(path)
            info = _info(path, entry)
            archive.addfile(info, io.BytesIO(entry.data) if entry is not None and info.isreg() else None)
    return buffer.getvalue()


def _info(path: str, entry: Entry | None) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.mtime = 0
    if entry is None:
        info.type, info.mode = tarfile.DIRTYPE, _EXECUTABLE
    elif entry.link:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
    else:
        info.size, info.mode = len(entry.data), _EXECUTABLE if entry.executable else _REGULAR
    return info


def restored(work: Workspace, original: Workspace, protected: Iterable[str], removed: Iterable[str] = ()) -> Workspace:
    """`work` with each protected path (file or folder) as it was in `original`, and `removed` paths taken out (C63).

    What was added below a protected folder goes; a link or file that stands in the way of a restored file goes too.
    """
    files = dict(work.files)
    for path in (*protected, *removed):
        _take_out(files, path)
    for path in protected:
        for name in _at_or_below(original.files, path):
            _take_out(files, name)
            files[name] = original.files[name]
    occupied = set(files)
    directories = tuple(d for d in work.directories if d not in occupied and not any(p in occupied for p in parents(d)))
    return Workspace(files, directories, work.dropped)


def _at_or_below(files: Mapping[str, Entry], path: str) -> list[str]:
    return [name for name in files if name == path or name.startswith(f"{path}/")]


def _take_out(files: dict[str, Entry], path: str) -> None:
    """Remove the path; where a link or file stands above it, that goes: it could bring another file in its place."""
    for name in [*_at_or_below(files, path), *(parent for parent in parents(path) if parent in files)]:
        files.pop(name, None)
