"""Ending a live attempt because the run is stopped: the request reaches the sandbox, then it is recorded (R9, C12)."""

import asyncio

import msgspec
import structlog

from agentrun.broker.client import BrokerError
from agentrun.core.errors import AgentrunError
from agentrun.core.events import StepAbandoned
from agentrun.harness.attempt import Attempt, Result
from agentrun.harness.effects.exchange import Call, endpoint_of, sign
from agentrun.harness.tasks import end

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
    """The tool server ends everything the step has started. Best effort: the Pod's end is the proof."""
    pod = attempt.state().pod("verify" if attempt.step.kind == "verify" else "work")
    if pod is None:
        return
    call = Call("kill", msgspec.json.encode({"step": attempt.step.id}))
    try:
        async with asyncio.timeout(KILL_SECONDS):
            signed = await sign(attempt, pod, call)
            await attempt.world.sandbox.dispatch(endpoint_of(attempt, pod), signed.dispatch, call.body, KILL_SECONDS)
    except TimeoutError:
        _log.warning("kill_unanswered", run=attempt.run.uid, step=attempt.step.id)
    except AgentrunError as error:
        told = error.message if isinstance(error, BrokerError) else str(error)
        _log.warning("kill_failed", run=attempt.run.uid, step=attempt.step.id, error=told)
