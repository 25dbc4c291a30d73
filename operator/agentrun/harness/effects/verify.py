"""Goal verification: a fresh Pod, protected paths as they were, exit code and parsed report (R24, C63)."""

import asyncio
from typing import Any

import msgspec

from agentrun.api.template import Verification
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import ErrorClass
from agentrun.core.events import Artifact, VerificationCompleted
from agentrun.harness.attempt import Attempt, Result
from agentrun.harness.effects.exchange import Call, ExchangeFailed, exchange
from agentrun.harness.effects.sandboxes import sandbox_for
from agentrun.harness.effects.workspace import MAX_SNAPSHOT_BYTES, send_tar, step_failed
from agentrun.harness.junit import BadReport, TestCounts, parse
from agentrun.journal.port import Blob
from agentrun.tools.answers import InvalidAnswer, Members, bytes_of, outcome
from agentrun.tools.workspace import BadWorkspace, Workspace, read, restored, write

LOG_BYTES = 1_048_576
_SUMMARY = 2000
_OURS = (ErrorClass.SANDBOX_REPLACED, ErrorClass.CANCELLED)  # says nothing about the work


async def verify(attempt: Attempt) -> Result:
    """VerificationCompleted, or StepFailed where no judgement came about."""
    try:
        plan = _plan(attempt)
        pod = await sandbox_for(attempt, "verify")
        await send_tar(attempt, pod, await _tree(attempt, plan))
        body = msgspec.json.encode(_request(attempt, plan))
        answered = await exchange(attempt, pod, Call("verify", body))
        return _judged(attempt, plan, answered.members)
    except (ExchangeFailed, InvalidAnswer, BadWorkspace) as error:
        return step_failed(attempt, error)


def _plan(attempt: Attempt) -> Verification:
    given = attempt.facts.template.get("verification")
    if given is None:
        raise ExchangeFailed(ErrorClass.INVALID_REQUEST, "the template has no verification")
    return Verification.model_validate(given)


async def _tree(attempt: Attempt, plan: Verification) -> bytes:
    """The snapshot with protected paths from the input, and no report that the model may have written."""
    state = attempt.state()
    original = await attempt.blobs.get(state.workspace) if state.workspace is not None else None
    snapshot = await attempt.blobs.get(state.snapshot) if state.snapshot is not None else original
    removed = (plan.report.path,) if plan.report is not None else ()

    def build() -> bytes:
        before = read(original, MAX_SNAPSHOT_BYTES) if original is not None else Workspace()
        after = read(snapshot, MAX_SNAPSHOT_BYTES) if snapshot is not None else Workspace()
        return write(restored(after, before, plan.protected_paths, removed))

    return await asyncio.to_thread(build)


def _request(attempt: Attempt, plan: Verification) -> dict[str, Any]:
    frozen = attempt.state().plan.verification
    body: dict[str, Any] = {
        "argv": list(plan.argv),
        "timeoutSeconds": frozen.timeout_seconds if frozen is not None else 600,
        "maxOutputBytes": LOG_BYTES,
    }
    if plan.report is not None:
        body["reportPath"] = plan.report.path
    return body


def _judged(attempt: Attempt, plan: Verification, members: Members) -> Result:
    came = outcome("run", members)
    if came.error_class is not None and came.error_class in _OURS:
        raise ExchangeFailed(came.error_class, came.message)
    artifacts = [_artifact("verification-log", came.output, "text/plain; charset=utf-8")]
    passed, told = came.status == "Ok", ", ".join(came.facts) or came.message
    if came.message:
        told = f"{came.message} ({told})"
    if plan.report is not None:
        raw = _report(members)
        if raw is not None:
            artifacts.append(_artifact("verification-report", raw, "application/xml"))
        green, counts = _counted(raw)
        passed, told = passed and green, f"{counts}; {told}"
    step = attempt.step
    event = VerificationCompleted(step.id, step.attempt, passed, told[:_SUMMARY], tuple(a for a, _ in artifacts))
    return Result((event,), tuple(blob for _, blob in artifacts))


def _report(members: Members) -> bytes | None:
    report = members.get("report")
    if not isinstance(report, dict):
        return None
    found: Members = msgspec.convert(report, dict[str, Any])
    if found.get("found") is not True or found.get("truncated") is True:
        return None
    return bytes_of(found, "content")


def _counted(raw: bytes | None) -> tuple[bool, str]:
    """Whether the report says that all is well, and its word for people. A missing one says no."""
    if raw is None:
        return False, "no report was written"
    try:
        counts: TestCounts = parse(raw)
    except BadReport as error:
        return False, f"the report cannot be read: {error}"
    if counts.passed == 0 and not counts.failed:
        return False, f"no test was executed ({counts.told()})"
    return counts.all_green, counts.told()


def _artifact(name: str, data: bytes, media_type: str) -> tuple[Artifact, Blob]:
    digest = sha256_digest(data)
    return Artifact(name, digest, media_type, len(data)), Blob(digest, data)
