"""What outlives this process: the highest fence and the step memory, in an emptyDir.

It survives a restart of the container, not the Pod, so nothing is synced to disk: a node that dies takes the Pod
along. The model's code runs under the same UID and can spoil it: this guards against stale harnesses only.
"""

import json
import os

from agentrun_sandbox.sodium import sha256_digest


class Memory:
    """Files under the state folder; writes are a new file renamed over the old one."""

    def __init__(self, folder: str) -> None:
        self._steps = os.path.join(folder, "steps")
        self._fence_file = os.path.join(folder, "fence")
        os.makedirs(self._steps, exist_ok=True)
        self.fence = int(_read(self._fence_file) or b"0")

    def raise_fence(self, fence: int) -> None:
        """Remember a fence; lower ones change nothing."""
        if fence > self.fence:
            _write(self._fence_file, str(fence).encode())
            self.fence = fence

    def started(self, step: str) -> "dict[str, object] | None":
        """What was written when the step began, or None."""
        raw = _read(self._path(step, "started"))
        record = json.loads(raw) if raw else None
        return record if isinstance(record, dict) else None

    def result(self, step: str) -> "bytes | None":
        """The stored answer, byte for byte."""
        return _read(self._path(step, "done"))

    def begin(self, step: str, record: "dict[str, object]") -> None:
        """Written before anything of the step runs."""
        _write(self._path(step, "started"), json.dumps(record).encode())

    def finish(self, step: str, answer: bytes) -> None:
        """Written before the answer is sent."""
        _write(self._path(step, "done"), answer)

    def _path(self, step: str, kind: str) -> str:
        name = sha256_digest(step.encode()).removeprefix("sha256:")[:40]  # a step id is text, not a path
        return os.path.join(self._steps, f"{name}.{kind}")


def _read(path: str) -> "bytes | None":
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _write(path: str, data: bytes) -> None:
    partial = path + ".partial"
    with open(partial, "wb") as file:
        file.write(data)
    os.replace(partial, path)
