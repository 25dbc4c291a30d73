"""A model call: the conversation so far, the broker, one recorded reply (R18, C39)."""

import msgspec

from agentrun.broker.client import BrokerError, BrokerUnreachable
from agentrun.broker.wire import ModelAnswer, ModelCall
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import ErrorClass, Retry
from agentrun.core.events import ModelCompleted, ModelFailed, ProposedCall
from agentrun.core.ids import tool_step
from agentrun.harness.attempt import Attempt, Result, Superseded
from agentrun.harness.conversation import StoredCall, StoredReply, messages, offers
from agentrun.harness.effects.backoff import Patience, later
from agentrun.journal.port import Blob
from agentrun.models.port import Finish, ModelRequest

SUMMARY_BYTES = 4096
MAX_CALLS = 128  # of one reply; more is no plan but a fault
# Nothing was asked of the model: our own side, or the run's own authority, is not ready (C42).
_NOT_ASKED = (ErrorClass.AUTHORITY_UNAVAILABLE, ErrorClass.RUN_STOPPED, ErrorClass.RUN_NOT_FOUND)


async def call_model(attempt: Attempt) -> Result:
    """ModelCompleted or ModelFailed. Raises Superseded."""
    call, patience = await _request(attempt), Patience(attempt)
    while True:
        try:
            return _completed(attempt, await attempt.world.broker.model(call))
        except BrokerError as error:
            asked = error.error_class not in _NOT_ASKED and not isinstance(error, BrokerUnreachable)
            if asked or not await patience.wait():
                return Result((_failed(attempt, error, asked=asked),))


async def _request(attempt: Attempt) -> ModelCall:
    facts, step, state = attempt.facts, attempt.step, attempt.state()
    request = ModelRequest(
        await messages(attempt.blobs, facts, attempt.entries),
        offers(facts),
        state.plan.max_output_tokens,
        step.deadline,
    )
    return ModelCall(attempt.run, attempt.fence, step.id, step.attempt, state.template_digest, request)


def _completed(attempt: Attempt, answer: ModelAnswer) -> Result:
    step, reply = attempt.step, answer.message
    turn = int(step.id.removeprefix("t"))
    stored = tuple(
        StoredCall(tool_step(turn, index), call.name, call.arguments)
        for index, call in enumerate(reply.tool_calls[:MAX_CALLS])
    )
    cut = answer.finish_reason == Finish.LENGTH
    raw = msgspec.json.encode(StoredReply(reply.text, answer.finish_reason, stored))
    blobs = [Blob(sha256_digest(raw), raw)]
    calls: list[ProposedCall] = []
    for call in () if cut else stored:  # half a call is none (C39)
        blobs.append(Blob(sha256_digest(call.arguments), call.arguments))
        calls.append(_proposed(attempt, call))
    event = ModelCompleted(
        step=step.id,
        attempt=step.attempt,
        message=blobs[0].digest,
        finish=answer.finish_reason,
        usage=answer.usage.usage(),
        cost_micro_usd=answer.cost_micro_usd or 0,
        calls=tuple(calls),
        summary="" if calls else _summary(reply.text),
        adapter=f"{answer.adapter.name}/{answer.adapter.version}",
        verdict=answer.verdict.sig,
    )
    return Result((event,), tuple(blobs))


def _proposed(attempt: Attempt, call: StoredCall) -> ProposedCall:
    problem = attempt.facts.catalogue.problem(call.name, call.arguments)
    digest = sha256_digest(call.arguments)
    if problem is None:
        return ProposedCall(call.id, call.name, digest)
    return ProposedCall(call.id, call.name, digest, problem.error_class, problem.detail)


def _summary(text: str) -> str:
    """The first 4 KiB, whole characters."""
    return text.encode("utf-8", "backslashreplace")[:SUMMARY_BYTES].decode("utf-8", "ignore")


def _failed(attempt: Attempt, error: BrokerError, *, asked: bool) -> ModelFailed:
    step, refusal = attempt.step, error.refusal
    if error.error_class == ErrorClass.STALE_FENCE:
        raise Superseded(f"run {attempt.run.uid}: {error.message}")
    again = not asked or error.retry != Retry.NEVER
    return ModelFailed(
        step=step.id,
        attempt=step.attempt,
        error_class=error.error_class,
        message=error.message,
        next_attempt_at=later(attempt, refusal.retry_after_seconds) if again else 0,
        usage=None if refusal.usage is None else refusal.usage.usage(),
        counts=asked and error.error_class != ErrorClass.RATE_LIMITED,
    )
