"""The sandbox that an attempt is for."""

from agentrun.core.errors import ErrorClass
from agentrun.core.state import Pod
from agentrun.harness.attempt import Attempt
from agentrun.harness.effects.backoff import Patience
from agentrun.harness.effects.exchange import ExchangeFailed


async def sandbox_for(attempt: Attempt, purpose: str) -> Pod:
    """The live Pod; for a verification the one of this very attempt, never one that an earlier attempt has used.

    Raises ExchangeFailed (SandboxLost) when the deadline passes first.
    """
    patience = Patience(attempt)
    while True:
        pod = attempt.state().pod(purpose)
        if pod is not None and (purpose != "verify" or pod.name.endswith(f"-v{attempt.step.attempt}")):
            return pod
        if not await patience.wait():
            raise ExchangeFailed(ErrorClass.SANDBOX_LOST, f"the run had no {purpose} sandbox until the deadline")
