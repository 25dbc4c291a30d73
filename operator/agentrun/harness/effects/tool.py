"""A tool call: gate 3 at the broker, the sandbox, gate 4, one recorded answer (R15, R16)."""

from agentrun.core.digest import sha256_digest
from agentrun.core.errors import ErrorClass
from agentrun.core.events import ToolCompleted
from agentrun.core.state import Call as ProposedCall
from agentrun.core.state import Pod
from agentrun.harness.attempt import Attempt, Result
from agentrun.harness.effects.exchange import Answered, Call, ExchangeFailed, exchange
from agentrun.harness.effects.sandboxes import sandbox_for
from agentrun.journal.port import Blob
from agentrun.tools.answers import InvalidAnswer, outcome
from agentrun.tools.request import NoSandboxTool, SandboxRequest, tool_request
from agentrun.tools.results import Outcome, view

_DEFAULT_SECONDS, _DEFAULT_BYTES = 60, 65_536
# Three different answers to the model, and one for arguments that cannot be judged (C45).
_REFUSALS = (ErrorClass.NOT_FOUND, ErrorClass.NOT_GRANTED, ErrorClass.DENIED, ErrorClass.INVALID_ARGUMENTS)


async def call_tool(attempt: Attempt) -> Result:
    """ToolCompleted. Raises Superseded."""
    call = attempt.state().call(attempt.step.id)
    tool = attempt.facts.catalogue.tool(call.tool) if call is not None else None
    if call is None or tool is None:
        refused = Outcome.refused(ErrorClass.NOT_FOUND, f"there is no tool named {call.tool!r}" if call else "no call")
        return tool_result(attempt, refused)
    try:
        seconds, most = _bounds(attempt, call)
        request = tool_request(tool, await attempt.blobs.get(call.arguments), seconds, most)
        pod = await sandbox_for(attempt, "work")
        answered = await exchange(attempt, pod, Call(request.op, request.body, tool.name, request.arguments_digest))
        return tool_result(attempt, outcome(request.op, answered.members), answered, request, pod)
    except ExchangeFailed as error:
        return tool_result(attempt, _failed(error))
    except InvalidAnswer as error:
        return tool_result(attempt, Outcome.failed(ErrorClass.INVALID_RESULT, str(error)))
    except NoSandboxTool as error:
        return tool_result(attempt, Outcome.refused(ErrorClass.INVALID_REQUEST, str(error)))


def _failed(error: ExchangeFailed) -> Outcome:
    if error.refused and error.error_class in _REFUSALS:
        return Outcome.refused(error.error_class, error.message)
    return Outcome.failed(error.error_class, error.message)


def _bounds(attempt: Attempt, call: ProposedCall | None) -> tuple[int, int]:
    """Seconds and bytes that the frozen plan gives the tool."""
    plan = attempt.state().plan.tool(call.tool) if call is not None else None
    return (plan.timeout_seconds, plan.max_output_bytes) if plan is not None else (_DEFAULT_SECONDS, _DEFAULT_BYTES)


def tool_result(
    attempt: Attempt,
    came: Outcome,
    answered: Answered | None = None,
    request: SandboxRequest | None = None,
    pod: Pod | None = None,
) -> Result:
    """The event of an outcome, with what the model is shown and the whole output where that leaves something out."""
    step = attempt.step
    _, most = _bounds(attempt, attempt.state().call(step.id))
    shown = view(came, most)
    blobs = [Blob(sha256_digest(data), data) for data in (shown.shown, shown.whole) if data is not None]
    event = ToolCompleted(
        step=step.id,
        attempt=step.attempt,
        status=came.status,
        output=blobs[0].digest,
        error_class=came.error_class or "",
        message=came.message[:500],
        output_bytes=shown.output_bytes,
        truncated=shown.truncated,
        receipt=_receipt(request, pod, blobs[1].digest if len(blobs) > 1 else ""),
        verdict=answered.verdict if answered is not None else "",
        replayed=answered is not None and answered.replayed,
    )
    return Result((event,), tuple(blobs))


def _receipt(request: SandboxRequest | None, pod: Pod | None, whole: str) -> str:
    """Where it was carried out, what was sent, and the whole output if the view does not hold it."""
    if request is None or pod is None:
        return ""
    return f"pod={pod.uid} container={pod.container_id} body={sha256_digest(request.body)}" + (
        f" output={whole}" if whole else ""
    )
