"""One signed exchange with a sandbox: authorised by the broker, repeated under the same step id, believed only if the
Pod is still the same one afterwards (design 1, 6)."""

from dataclasses import dataclass

from agentrun.broker.client import BrokerError, BrokerUnreachable
from agentrun.broker.wire import SignAnswer, SignCall
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import AgentrunError, ErrorClass
from agentrun.core.state import Pod
from agentrun.harness.attempt import Attempt, Superseded
from agentrun.harness.effects.backoff import Patience
from agentrun.harness.ports import PodsUnavailable
from agentrun.tools.answers import InvalidAnswer, Members, members_of, refusal_of
from agentrun.tools.sandbox import SandboxAnswer, SandboxEndpoint, SandboxUnreachable

# Nobody has decided yet, or what was decided on will be known in a moment: ask again.
_UNDECIDED = (
    ErrorClass.AUTHORITY_UNAVAILABLE,
    ErrorClass.RUN_STOPPED,
    ErrorClass.RUN_NOT_FOUND,
    ErrorClass.SANDBOX_LOST,
    ErrorClass.TRANSIENT,
    ErrorClass.TIMEOUT,
    ErrorClass.INTERNAL,
)
_LATER = ("Expired", "NotYetValid", "Busy", "StateUnavailable")  # another signature or a moment cures these


class ExchangeFailed(AgentrunError):
    """No answer that counts. `error_class` says why; `refused`: the broker said no and nothing was sent."""

    def __init__(self, error_class: ErrorClass, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.message = message
        self.refused = refused


@dataclass(frozen=True)
class Call:
    """What is to be signed and sent. `tool` and `arguments_digest` only for a model's call."""

    op: str
    body: bytes
    tool: str | None = None
    arguments_digest: str = ""
    step: str = ""  # another id than the attempt's: what is said about a step is not the step itself

    @property
    def judged(self) -> bool:
        """Whether the broker judges the body; of the others it only binds the digest."""
        return self.tool is not None or self.op == "verify"


@dataclass(frozen=True)
class Answered:
    """The answer's members, and the signed verdict that allowed the call."""

    members: Members
    verdict: str
    replayed: bool  # from the sandbox's memory of the step


async def exchange(attempt: Attempt, pod: Pod, call: Call, reserve_seconds: float = 0.0) -> Answered:
    """Sign, send, wait, check the Pod. Raises ExchangeFailed, Superseded.

    A broken connection is answered by asking again: the sandbox's step memory makes that harmless.
    """
    patience = Patience(attempt)
    trouble = ExchangeFailed(ErrorClass.TIMEOUT, "the step's deadline passed before the sandbox could be asked")
    while attempt.seconds_left > reserve_seconds:
        try:
            signed = await _signed(attempt, pod, call)
            answer = await attempt.world.sandbox.dispatch(
                endpoint_of(attempt, pod), signed.dispatch, call.body, max(0.1, attempt.seconds_left - reserve_seconds)
            )
            members = await _believed(attempt, pod, answer)
            return Answered(members, signed.verdict.sig, answer.headers.get("agentrun-replayed") == "1")
        except SandboxUnreachable as error:
            trouble = ExchangeFailed(ErrorClass.TIMEOUT, f"the sandbox did not answer: {error}")
        except _Again as again:
            trouble = again.trouble
        if not await patience.wait():
            break
    raise trouble


class _Again(Exception):
    """Try once more while there is time; else the trouble stands."""

    def __init__(self, trouble: ExchangeFailed) -> None:
        super().__init__(str(trouble))
        self.trouble = trouble


def endpoint_of(attempt: Attempt, pod: Pod) -> SandboxEndpoint:
    """Where a Pod's tool server is."""
    return SandboxEndpoint(attempt.state().namespace, pod.name, pod.uid, pod.ip, pod.container_id)


async def sign(attempt: Attempt, pod: Pod, call: Call) -> SignAnswer:
    """The broker's signature. Raises BrokerError."""
    step = attempt.step
    tool_call = call.tool is not None
    return await attempt.world.broker.sign(
        SignCall(
            run=attempt.run,
            fence=attempt.fence,
            step=call.step or step.id,
            attempt=step.attempt,
            template_digest=attempt.facts.template_digest,
            op=call.op,
            pod_name=pod.name,
            pod_uid=pod.uid,
            min_fence=attempt.fence,
            body_digest=sha256_digest(call.body),
            body=call.body if call.judged else b"",
            call=step.id if tool_call else "",
            tool=call.tool,
            arguments_digest=call.arguments_digest,
        )
    )


async def _signed(attempt: Attempt, pod: Pod, call: Call) -> SignAnswer:
    try:
        return await sign(attempt, pod, call)
    except BrokerError as error:
        if error.error_class == ErrorClass.STALE_FENCE:
            raise Superseded(f"run {attempt.run.uid}: {error.message}") from None
        undecided = isinstance(error, BrokerUnreachable) or error.error_class in _UNDECIDED
        failed = ExchangeFailed(error.error_class, error.message, refused=True)
        raise _Again(failed) if undecided else failed from None


async def _believed(attempt: Attempt, pod: Pod, answer: SandboxAnswer) -> Members:
    """The members, if the tool server took the dispatch and the Pod is the one it was sent to."""
    refusal = refusal_of(answer)
    if refusal is not None:
        _refused(attempt, *refusal)
    await _check_unchanged(attempt, pod)
    try:
        return members_of(answer.body)
    except InvalidAnswer as error:
        raise ExchangeFailed(ErrorClass.INVALID_RESULT, str(error)) from None


def _refused(attempt: Attempt, kind: str, message: str) -> None:
    if kind == "StaleFence":
        raise Superseded(f"run {attempt.run.uid}: the sandbox says: {message}")
    failed = ExchangeFailed(ErrorClass.INVALID_RESULT, f"the sandbox refused the dispatch: {kind}: {message}")
    raise _Again(failed) if kind in _LATER else failed


async def _check_unchanged(attempt: Attempt, pod: Pod) -> None:
    """A result counts only if Pod UID, container and IP are unchanged in a read made after the answer (C58)."""
    patience = Patience(attempt)
    while True:
        try:
            now = await attempt.world.pods.identity(attempt.state().namespace, pod.name)
            break
        except PodsUnavailable as error:
            if not await patience.wait():
                message = f"nobody can say whether the sandbox is the same: {error}"
                raise ExchangeFailed(ErrorClass.AUTHORITY_UNAVAILABLE, message) from None
    if now is None or now.uid != pod.uid:
        raise ExchangeFailed(ErrorClass.SANDBOX_LOST, f"Pod {pod.name} is gone")
    if now.container_id != pod.container_id or now.ip != pod.ip:
        message = (
            f"the container of Pod {pod.name} was replaced while the call ran; the workspace is still there, "
            "what the call did is not known"
        )
        raise ExchangeFailed(ErrorClass.SANDBOX_REPLACED, message)
