"""What the broker does with a request: read, decide, record, and only then sign or call out."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from agentrun.broker.authorise import Decision, decide
from agentrun.broker.authority import Authority
from agentrun.broker.gate import Gate, KeptVerdict
from agentrun.broker.model_calls import ModelCalls, choose
from agentrun.broker.refusal import Refused, answer_to
from agentrun.broker.runs import LiveRun, live_run
from agentrun.broker.signing import Signer
from agentrun.broker.view import View, read_authority
from agentrun.broker.wire import (
    Adapter,
    ErrorAnswer,
    ModelAnswer,
    ModelCall,
    Reply,
    RunName,
    SignAnswer,
    SignCall,
    UsageBuckets,
    Verdict,
)
from agentrun.core.errors import ErrorClass
from agentrun.models.errors import ModelError

_Judged = TypeVar("_Judged")


def _now() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True)
class Broker:
    """One broker. `clock`: microseconds UTC."""

    view: View
    gate: Gate
    signer: Signer
    models: ModelCalls
    clock: Callable[[], int] = _now

    async def sign(self, call: SignCall) -> SignAnswer:
        """A signed dispatch with its verdict. Raises Refused."""
        await self.gate.check_fence(call.run.uid, call.fence)

        async def judged(*, fresh: bool) -> Decision:
            read = await read_authority(self.view, call.run, call.template_digest, call.pod_name, fresh=fresh)
            return decide(call, read, self.clock())

        decision = await _twice_before_no(judged)
        if decision.keep:
            decision = await judged(fresh=True)
        now = self.clock()
        claims = _claims(call, call.op, call.call, call.tool or "", decision, call.body_digest)
        verdict = Verdict("Allowed", decision.grant, decision.policy_digest, self.signer.verdict(claims, now))
        kept = KeptVerdict(call.run.uid, call.step, call.attempt, call.fence, now, verdict.sig)
        await self.gate.obey(call.run.uid, call.fence, kept if decision.keep else None)
        return SignAnswer(self.signer.dispatch(call, now), verdict)

    async def model(self, call: ModelCall, request_digest: str) -> ModelAnswer | ErrorAnswer:
        """The model's reply, or what a failed call cost. Raises Refused before anything was asked."""
        await self.gate.check_fence(call.run.uid, call.fence)

        async def judged(*, fresh: bool) -> LiveRun:
            read: Authority = await read_authority(self.view, call.run, call.template_digest, None, fresh=fresh)
            return live_run(call.run, call.template_digest, read)

        run = await _twice_before_no(judged)
        choice = choose(run)
        await self.gate.obey(call.run.uid, call.fence)
        try:
            adapter = self.models.adapter(choice)
            reply = await self.models.ask(adapter, choice, run, call.request, self.clock())
        except ModelError as error:
            return answer_to(error, choice.cost(error.usage))
        claims = _claims(call, "model", "", "", Decision(), request_digest)
        return ModelAnswer(
            Reply(reply.text, reply.tool_calls),
            reply.finish,
            UsageBuckets.of(reply.usage),
            choice.cost(reply.usage),
            Adapter(adapter.name, adapter.version),
            Verdict("Allowed", "", "", self.signer.verdict(claims, self.clock())),
        )


async def _twice_before_no(judged: Callable[..., Awaitable[_Judged]]) -> _Judged:
    """A refusal from the live view is checked against the API server: what it lacks may have come a moment ago."""
    try:
        return await judged(fresh=False)
    except Refused as refusal:
        if refusal.error_class in (ErrorClass.INVALID_REQUEST, ErrorClass.INVALID_ARGUMENTS):
            raise
    return await judged(fresh=True)


def _claims(
    call: SignCall | ModelCall, op: str, call_id: str, tool: str, decision: Decision, body_digest: str
) -> dict[str, Any]:
    run: RunName = call.run
    return {
        "run": run.uid,
        "step": call.step,
        "attempt": call.attempt,
        "call": call_id,
        "op": op,
        "tool": tool,
        "decision": "Allowed",
        "grant": decision.grant,
        "policyDigest": decision.policy_digest,
        "bodyDigest": body_digest,
    }
