"""`put`: a tar into the workspace, in signed chunks; nothing is unpacked before its digest and every entry hold."""

import os
import tarfile

from agentrun_sandbox.encoding import base64_decode, shown
from agentrun_sandbox.errors import StepError
from agentrun_sandbox.ops.context import Context
from agentrun_sandbox.paths import FOLDER_FLAGS, Place, Workspace
from agentrun_sandbox.spool import CHUNK_BYTES, Spool

MAX_CHUNKS = 1 << 16
MAX_ENTRIES = 200_000


def put(context: Context, step: str) -> "dict[str, object]":
    """One chunk; the one that completes the tar unpacks it over what the workspace holds."""
    body = context.body
    index, count = body.integer("index", -1, 0, MAX_CHUNKS - 1), body.integer("count", 0, 1, MAX_CHUNKS)
    digest, size = body.text("digest"), body.integer("sizeBytes", -1, 0, 1 << 40)
    try:
        data = base64_decode(body.text("chunkBase64", ""))
    except ValueError:
        raise StepError("InvalidArguments", "chunkBase64 is no padded standard base64") from None
    body.done()
    if size > context.limits.workspace_bytes:
        raise StepError(
            "TooLarge", f"the tar has {size} bytes; the workspace may have {context.limits.workspace_bytes}"
        )
    if index >= count or len(data) > CHUNK_BYTES or count != max(1, -(-size // CHUNK_BYTES)):
        raise StepError("InvalidArguments", f"index must be below count, count the number of {CHUNK_BYTES}-byte chunks")
    if len(data) != min(CHUNK_BYTES, size - index * CHUNK_BYTES):
        raise StepError("InvalidArguments", f"every chunk but the last has {CHUNK_BYTES} bytes")
    spool = Spool(context.state, step, digest, count)
    done = spool.result()
    if done is not None:
        return done
    spool.keep(index, data)
    missing = spool.missing()
    if missing:
        return {"complete": False, "missing": missing[:64]}
    return _unpack(spool, size, context)


def _unpack(spool: Spool, size: int, context: Context) -> "dict[str, object]":
    found = spool.digest()
    if found != spool.announced:
        spool.clear()
        raise StepError("DigestMismatch", f"the chunks together are {found}, not {spool.announced}")
    try:
        with tarfile.open(fileobj=spool.joined(size), mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
            members = checked(tar, context.limits.workspace_bytes)
            written = sum(_extract(tar, member, context.workspace) for member in members)
    except (tarfile.TarError, EOFError) as error:
        spool.clear()
        raise StepError("InvalidArguments", f"the chunks together are no tar: {error}") from None
    except StepError:
        spool.clear()
        raise
    return spool.finish({"complete": True, "entries": len(members), "contentBytes": written, "sizeBytes": size})


def checked(tar: tarfile.TarFile, most: int) -> "list[tarfile.TarInfo]":
    """The entries, all of them acceptable. Raises StepError: PathEscape, TooLarge, InvalidArguments."""
    members: dict[str, tarfile.TarInfo] = {}
    total = 0
    for member in tar:
        _check_name(member)
        name = member.name.rstrip("/")
        if name in members:
            raise StepError("InvalidArguments", f"{_told(member)} is twice in the tar")
        members[name] = member
        total += member.size
        if len(members) > MAX_ENTRIES or total > most:
            raise StepError("TooLarge", f"more than {MAX_ENTRIES} entries or {most} bytes")
    for name, member in members.items():
        _check_parents(name, member, members)
    return list(members.values())


def _check_parents(name: str, member: tarfile.TarInfo, members: "dict[str, tarfile.TarInfo]") -> None:
    while "/" in name:
        name = name.rpartition("/")[0]
        if name in members and not members[name].isdir():
            raise StepError("InvalidArguments", f"{_told(member)} lies below {name}, which the tar says is no folder")


def _check_name(member: tarfile.TarInfo) -> None:
    parts = member.name.rstrip("/").split("/")
    if not all(parts) or ".." in parts or "." in parts or "\0" in member.name:
        raise StepError("PathEscape", f"{_told(member)} is no plain relative path")
    if member.issym():
        _check_link(member, len(parts) - 1)
    elif not (member.isreg() or member.isdir()) or member.issparse():
        raise StepError("InvalidArguments", f"{_told(member)} is neither file, folder nor symbolic link")


def _check_link(member: tarfile.TarInfo, depth: int) -> None:
    if not stays_inside(member.linkname, depth):
        raise StepError("PathEscape", f"the link {_told(member)} leads out of the workspace")


def stays_inside(target: str, depth: int) -> bool:
    """Whether a link `depth` folders deep stays below the root, whatever other such links stand on its way.

    `..` only in front: behind a name that is itself a link it would count from somewhere else.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    return not target.startswith("/") and target != "" and ups <= depth and ".." not in parts[ups:]


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, workspace: Workspace) -> int:
    """Write one entry, never through a link; returns the bytes of content."""
    parts = [os.fsencode(part) for part in member.name.rstrip("/").split("/")]
    try:
        folder = _folder(workspace.fd, parts if member.isdir() else parts[:-1])
        try:
            if member.isdir():
                return 0
            _clear(Place(folder, parts[-1]))
            if member.issym():
                os.symlink(os.fsencode(member.linkname), parts[-1], dir_fd=folder)
                return 0
            return _write(tar, member, Place(folder, parts[-1]))
        finally:
            os.close(folder)
    except (NotADirectoryError, IsADirectoryError):
        raise StepError(
            "Conflict", f"{_told(member)}: a file and a folder of the workspace are in each other's way"
        ) from None
    except OSError as error:
        raise StepError("NotWritable", f"{_told(member)} cannot be written: {error.strerror}") from None


def _folder(root: int, parts: "list[bytes]") -> int:
    current = os.dup(root)
    for part in parts:
        try:
            os.mkdir(part, 0o755, dir_fd=current)
        except FileExistsError:
            pass
        try:
            inner = os.open(part, FOLDER_FLAGS, dir_fd=current)
        finally:
            os.close(current)
        current = inner
    return current


def _clear(place: Place) -> None:
    try:
        os.unlink(place.name, dir_fd=place.folder)
    except FileNotFoundError:
        pass


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, place: Place) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    source = tar.extractfile(member)
    with os.fdopen(os.open(place.name, flags, 0o600, dir_fd=place.folder), "wb") as file:
        while source is not None and (data := source.read(1 << 20)):
            file.write(data)
        os.fchmod(file.fileno(), 0o755 if member.mode & 0o111 else 0o644)
    return member.size


def _told(member: tarfile.TarInfo) -> str:
    return shown(os.fsencode(member.name))[:300]
