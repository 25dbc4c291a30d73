"""Ending a live attempt because the run is stopped: the request reaches the sandbox, then it is recorded (R9, C12)."""

import asyncio

import structlog

from agentrun.core.errors import AgentrunError
from agentrun.core.events import StepAbandoned
from agentrun.harness.attempt import Attempt, Result
from agentrun.harness.effects.exchange import Call, endpoint_of, sign
from agentrun.harness.tasks import end
from agentrun.tools.answers import members_of, refusal_of
from agentrun.tools.sandbox import SandboxAnswer

KILL_SECONDS = 2.0
_log = structlog.get_logger()


async def abandon(attempt: Attempt, task: asyncio.Task[Result], mode: str) -> Result:
    """StepAbandoned; or the answer, if it arrived after all. Cancelling a model call closes its connection."""
    if attempt.step.kind != "model":
        await _kill(attempt)
        await asyncio.wait({task}, timeout=0.1)
    await end([task])
    if not task.cancelled():
        return task.result()
    return Result((StepAbandoned(attempt.step.id, attempt.step.attempt, mode),))


async def _kill(attempt: Attempt) -> None:
    """The tool server ends every process of the sandbox. Best effort: the end of the Pod is the proof."""
    pod = attempt.state().pod("verify" if attempt.step.kind == "verify" else "work")
    if pod is None:
        return
    call = Call("kill", b"{}", step=f"{attempt.step.id}-kill{attempt.step.attempt}")
    try:
        async with asyncio.timeout(KILL_SECONDS):
            signed = await sign(attempt, pod, call)
            endpoint = endpoint_of(attempt, pod)
            answer = await attempt.world.sandbox.dispatch(endpoint, signed.dispatch, call.body, KILL_SECONDS)
        trouble = _trouble(answer)
    except TimeoutError:
        trouble = f"no answer within {KILL_SECONDS:.0f} s"
    except AgentrunError as error:
        trouble = str(error)
    if trouble:
        _log.warning("kill_failed", run=attempt.run.uid, step=attempt.step.id, trouble=trouble)


def _trouble(answer: SandboxAnswer) -> str:
    refusal = refusal_of(answer)
    if refusal is not None:
        return ": ".join(refusal)
    members = members_of(answer.body)
    return f"{members.get('message')}" if members.get("errorClass") else ""
