"""Carry out one attempt; whatever goes wrong becomes an event of the history, never a run that nobody moves on."""

from typing import assert_never

import structlog

from agentrun.core.errors import AgentrunError, CorruptHistory, ErrorClass
from agentrun.core.events import ModelFailed, StepFailed
from agentrun.harness.attempt import Attempt, Result, Superseded
from agentrun.harness.effects.backoff import later
from agentrun.harness.effects.model import call_model
from agentrun.harness.effects.tool import call_tool, tool_result
from agentrun.harness.effects.verify import verify
from agentrun.harness.effects.workspace import get_workspace, put_workspace
from agentrun.journal.port import FenceLost, JournalUnavailable
from agentrun.tools.results import Outcome

_log = structlog.get_logger()


async def perform(attempt: Attempt) -> Result:
    """The attempt's result. Raises Superseded, FenceLost, JournalUnavailable, CorruptHistory: the run is let go."""
    try:
        return await _perform(attempt)
    except (Superseded, FenceLost, JournalUnavailable, CorruptHistory):
        raise
    except Exception as error:  # noqa: BLE001  (a fault of ours is told in the history, not lost with the task)
        if isinstance(error, AgentrunError):
            _log.warning("effect_failed", run=attempt.run.uid, step=attempt.step.id, error=str(error))
        else:
            _log.exception("effect_failed", run=attempt.run.uid, step=attempt.step.id)
        return _failed(attempt, f"{type(error).__name__}: {str(error)[:500]}")


async def _perform(attempt: Attempt) -> Result:
    match attempt.step.kind:
        case "model":
            return await call_model(attempt)
        case "tool":
            return await call_tool(attempt)
        case "put":
            return await put_workspace(attempt)
        case "get":
            return await get_workspace(attempt)
        case "verify":
            return await verify(attempt)
        case _:
            assert_never(attempt.step.kind)


def _failed(attempt: Attempt, message: str) -> Result:
    step = attempt.step
    match step.kind:
        case "model":
            event = ModelFailed(step.id, step.attempt, ErrorClass.INTERNAL, message, later(attempt))
            return Result((event,))
        case "tool":
            return tool_result(attempt, Outcome.failed(ErrorClass.INTERNAL, message))
        case _:
            return Result((StepFailed(step.id, step.attempt, ErrorClass.INTERNAL, message, later(attempt)),))
