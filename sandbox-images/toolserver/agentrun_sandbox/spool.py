"""Chunks of one `put` on disk: whatever moment the container dies at, the next one goes on with what is there."""

import io
import json
import os
import shutil

from agentrun_sandbox import TYPE_CHECKING
from agentrun_sandbox.sodium import SHA256

if TYPE_CHECKING:
    Result = dict[str, object]

CHUNK_BYTES = 1 << 20
_DONE = "unpacked"


class Spool:
    """A folder per step and announced digest. The result is noted before the chunks go: nobody sends them again."""

    def __init__(self, state: str, step: str, announced: str, count: int) -> None:
        name = (step + "-" + announced.removeprefix("sha256:")[:16]).replace("/", "_")
        self.announced = announced
        self._count = count
        self._folder = os.path.join(state, "put", name)
        os.makedirs(self._folder, exist_ok=True)

    def keep(self, index: int, data: bytes) -> None:
        """Store a chunk."""
        path = self._path(str(index))
        with open(path + ".partial", "wb") as file:
            file.write(data)
        os.replace(path + ".partial", path)

    def missing(self) -> "list[int]":
        """Chunks that have not come."""
        there = set(os.listdir(self._folder))
        return [index for index in range(self._count) if str(index) not in there]

    def digest(self) -> str:
        """Digest of all chunks together."""
        whole = SHA256()
        for index in range(self._count):
            with open(self._path(str(index)), "rb") as file:
                whole.update(file.read())
        return whole.digest()

    def joined(self, size: int) -> io.BufferedReader:
        """All chunks as one file."""
        return io.BufferedReader(_Joined(self._folder, size), CHUNK_BYTES)

    def result(self) -> "Result | None":
        """What `finish` has noted."""
        try:
            with open(self._path(_DONE), "rb") as file:
                value = json.loads(file.read())
        except FileNotFoundError:
            return None
        return value if isinstance(value, dict) else None

    def finish(self, result: "Result") -> "Result":
        """Note the result, then drop the chunks."""
        self.keep(-1, json.dumps(result).encode())
        os.replace(self._path("-1"), self._path(_DONE))
        for index in range(self._count):
            os.unlink(self._path(str(index)))
        return result

    def clear(self) -> None:
        """Forget everything: what was announced cannot be unpacked."""
        shutil.rmtree(self._folder)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)


class _Joined(io.RawIOBase):
    """Chunks of one size read as one file, without a copy of them."""

    def __init__(self, folder: str, size: int) -> None:
        self._folder = folder
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        index, within = divmod(self._at, CHUNK_BYTES)
        if self._at >= self._size:
            return 0
        with open(os.path.join(self._folder, str(index)), "rb") as file:
            file.seek(within)
            data = file.read(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
