"""Bringing a workspace into a sandbox and taking it out: one tar, 1 MiB chunks, digests on both sides (design 8)."""

import asyncio
import base64

import msgspec

from agentrun.core.digest import sha256_digest
from agentrun.core.errors import ErrorClass
from agentrun.core.events import Artifact, StepFailed, WorkspaceGot, WorkspacePut
from agentrun.core.state import Pod
from agentrun.harness.attempt import Attempt, Result
from agentrun.harness.effects.backoff import later_or_never
from agentrun.harness.effects.exchange import Call, ExchangeFailed, exchange
from agentrun.harness.effects.sandboxes import sandbox_for
from agentrun.harness.patch import patch
from agentrun.journal.port import Blob
from agentrun.tools.answers import InvalidAnswer, Members, bytes_of, integer
from agentrun.tools.workspace import BadWorkspace, Workspace, read, write

CHUNK_BYTES = 1_048_576
MAX_SNAPSHOT_BYTES = 256 * 1024 * 1024  # in the journal; a larger workspace belongs into an object store
TAR, PATCH = "application/x-tar", "text/x-patch"
_FOR_GOOD = (ErrorClass.TOO_LARGE, ErrorClass.DENIED, ErrorClass.INVALID_REQUEST)


async def put_workspace(attempt: Attempt) -> Result:
    """WorkspacePut or StepFailed: the input files in the work Pod."""
    digest = attempt.state().workspace
    try:
        pod = await sandbox_for(attempt, "work")
        tar = await attempt.blobs.get(digest) if digest is not None else write(Workspace())
        await send_tar(attempt, pod, tar)
    except (ExchangeFailed, InvalidAnswer) as error:
        return step_failed(attempt, error)
    return Result((WorkspacePut(attempt.step.id, attempt.step.attempt, pod.uid, sha256_digest(tar)),))


async def send_tar(attempt: Attempt, pod: Pod, tar: bytes) -> None:
    """All chunks. Raises ExchangeFailed."""
    digest, count = sha256_digest(tar), max(1, -(-len(tar) // CHUNK_BYTES))
    members: Members = {}
    for index in range(count):
        chunk = tar[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]
        body = {
            "index": index,
            "count": count,
            "digest": digest,
            "sizeBytes": len(tar),
            "chunkBase64": base64.b64encode(chunk).decode(),
        }
        members = checked((await exchange(attempt, pod, Call("put", msgspec.json.encode(body)))).members)
    if members.get("complete") is not True:
        raise ExchangeFailed(ErrorClass.INVALID_RESULT, "the sandbox says that chunks of the workspace are missing")


async def get_workspace(attempt: Attempt) -> Result:
    """WorkspaceGot with the snapshot and the diff against the input, or StepFailed."""
    try:
        pod = await sandbox_for(attempt, "work")
        raw = await _receive_tar(attempt, pod)
        original = attempt.state().workspace
        before = await attempt.blobs.get(original) if original is not None else None
        tar, diff = await asyncio.to_thread(_compare, before, raw)
    except (ExchangeFailed, InvalidAnswer, BadWorkspace) as error:
        return step_failed(attempt, error)
    blobs = (Blob(sha256_digest(tar), tar), Blob(sha256_digest(diff), diff))
    artifacts = (
        Artifact("diff", blobs[1].digest, PATCH, len(diff)),
        Artifact("workspace", blobs[0].digest, TAR, len(tar)),
    )
    return Result((WorkspaceGot(attempt.step.id, attempt.step.attempt, blobs[0].digest, artifacts),), blobs)


async def _receive_tar(attempt: Attempt, pod: Pod) -> bytes:
    """The snapshot's bytes, as the sandbox gives them."""
    chunks: list[bytes] = []
    count, size = 1, 0
    while len(chunks) < count:
        body = msgspec.json.encode({"index": len(chunks)})
        members = checked((await exchange(attempt, pod, Call("get", body))).members)
        count = integer(members, "count") or 0
        chunk = bytes_of(members, "chunk")
        size += len(chunk)
        if count < 1 or not chunk or len(chunk) > CHUNK_BYTES or size > MAX_SNAPSHOT_BYTES:
            raise ExchangeFailed(ErrorClass.TOO_LARGE, f"the workspace is no tar of at most {MAX_SNAPSHOT_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _compare(before: bytes | None, after: bytes) -> tuple[bytes, bytes]:
    """The snapshot in the one form of its content, and the diff. Raises BadWorkspace."""
    now = read(after, MAX_SNAPSHOT_BYTES)
    original = read(before, MAX_SNAPSHOT_BYTES) if before is not None else Workspace()
    left_out = "".join(f"# left out of the snapshot: {path!r}\n" for path in now.dropped[:100])
    return write(now), patch(original, now) + left_out.encode("utf-8", "backslashreplace")


def checked(members: Members) -> Members:
    """The members of an operation that worked. Raises ExchangeFailed."""
    kind = members.get("errorClass")
    if kind:
        known = {"TooLarge": ErrorClass.TOO_LARGE, "SandboxReplaced": ErrorClass.SANDBOX_REPLACED}
        message = f"{str(kind)[:64]}: {str(members.get('message', ''))[:500]}"
        raise ExchangeFailed(known.get(str(kind), ErrorClass.FAILED), message)
    return members


def step_failed(attempt: Attempt, error: ExchangeFailed | InvalidAnswer | BadWorkspace) -> Result:
    """StepFailed with the time of the next attempt; none where it would fail the same way."""
    step = attempt.step
    known = error.error_class if isinstance(error, ExchangeFailed) else ErrorClass.INVALID_RESULT
    again = 0 if known in _FOR_GOOD else later_or_never(attempt)
    return Result((StepFailed(step.id, step.attempt, known, str(error)[:1000], again),))
