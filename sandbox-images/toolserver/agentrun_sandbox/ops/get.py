"""`get`: the workspace as one deterministic tar, in chunks of one snapshot."""

import io
import os
import stat
import tarfile

from agentrun_sandbox.encoding import base64_encode, shown
from agentrun_sandbox.errors import StepError
from agentrun_sandbox.ops.context import Context
from agentrun_sandbox.ops.put import MAX_CHUNKS, stays_inside
from agentrun_sandbox.ops.tree import walk_all
from agentrun_sandbox.paths import FILE_FLAGS
from agentrun_sandbox.sodium import SHA256
from agentrun_sandbox.spool import CHUNK_BYTES

MAX_SKIPPED_TOLD = 32


def get(context: Context, step: str) -> "dict[str, object]":
    """Chunk `index`; index 0 makes the snapshot unless this step has one."""
    index = context.body.integer("index", 0, 0, MAX_CHUNKS)
    context.body.done()
    snapshot = _Snapshot(context.state, step)
    if not snapshot.exists():
        if index:
            raise StepError("NotFound", "this step has no snapshot (any more): begin with index 0 of a new step")
        snapshot.make(context)
    return snapshot.chunk(index)


class _Snapshot:
    """The tar on disk; only the newest is kept, so that the state volume needs room for one."""

    def __init__(self, state: str, step: str) -> None:
        self._folder = os.path.join(state, "get")
        self._path = os.path.join(self._folder, step.replace("/", "_") + ".tar")

    def exists(self) -> bool:
        return os.path.exists(self._path)

    def make(self, context: Context) -> None:
        os.makedirs(self._folder, exist_ok=True)
        for name in os.listdir(self._folder):
            os.unlink(os.path.join(self._folder, name))
        partial = self._path + ".partial"
        try:
            with open(partial, "wb") as file:
                skipped = pack(context.workspace.fd, file, context.limits.workspace_bytes)
        except BaseException:
            os.unlink(partial)  # room for the next one
            raise
        _note(self._path + ".note", partial, skipped)
        os.replace(partial, self._path)

    def chunk(self, index: int) -> "dict[str, object]":
        digest, size, skipped = _read_note(self._path + ".note")
        with open(self._path, "rb") as file:
            file.seek(index * CHUNK_BYTES)
            data = file.read(CHUNK_BYTES)
        count = max(1, -(-size // CHUNK_BYTES))
        if index >= count:
            raise StepError("InvalidArguments", f"index must be below {count}")
        return {
            "index": index, "count": count, "digest": digest, "sizeBytes": size,
            "skipped": skipped[:MAX_SKIPPED_TOLD], "skippedTotal": len(skipped), "chunkBase64": base64_encode(data),
        }  # fmt: skip


def _note(path: str, tar: str, skipped: "list[str]") -> None:
    import json

    whole, size = SHA256(), 0
    with open(tar, "rb") as file:
        while data := file.read(1 << 20):
            whole.update(data)
            size += len(data)
    with open(path, "w", encoding="utf-8") as note:
        json.dump([whole.digest(), size, skipped[:1000]], note)


def _read_note(path: str) -> "tuple[str, int, list[str]]":
    import json

    with open(path, encoding="utf-8") as note:
        digest, size, skipped = json.load(note)
    return digest, size, skipped


def pack(root: int, out: "io.BufferedIOBase", most: int) -> "list[str]":
    """Write the tree as tar: by path, times 0, owners 0, modes 0644 and 0755. Returns what could not be taken.

    Links that lead out, devices, pipes and sockets are left out and told; a tree over `most` bytes is refused.
    """
    skipped: list[str] = []
    with tarfile.open(
        fileobj=out, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for relative, folder, name, status in walk_all(root):
            info = _info(relative, folder, name, status)
            if info is None or not _add(tar, info, folder, name):
                skipped.append(shown(relative))
            if tar.offset > most:
                raise StepError("TooLarge", f"the workspace has more than {most} bytes")
    return skipped


def _info(relative: bytes, folder: int, name: bytes, status: os.stat_result) -> "tarfile.TarInfo | None":
    info = tarfile.TarInfo(os.fsdecode(relative))
    info.mode = 0o755
    if stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
        return info
    if stat.S_ISLNK(status.st_mode):
        info.type = tarfile.SYMTYPE
        info.linkname = os.fsdecode(os.readlink(name, dir_fd=folder))
        return info if stays_inside(info.linkname, relative.count(b"/")) else None
    if not stat.S_ISREG(status.st_mode):
        return None
    info.mode = 0o755 if status.st_mode & 0o111 else 0o644
    info.size = status.st_size
    return info


def _add(tar: tarfile.TarFile, info: tarfile.TarInfo, folder: int, name: bytes) -> bool:
    if not info.isreg():
        tar.addfile(info)
        return True
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=folder)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as file:
        info.size = os.fstat(fd).st_size
        try:
            tar.addfile(info, file)
        except OSError:
            raise StepError(
                "Conflict", f"{shown(os.fsencode(info.name))} changed while it was read: try again"
            ) from None
    return True
