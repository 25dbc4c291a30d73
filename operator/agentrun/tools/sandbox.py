"""The port through which a sandbox's tool server is reached (docs/reference/sandbox-protocol.md)."""

from typing import Protocol

import msgspec

from agentrun.core.errors import AgentrunError, Retry

PORT = 7070
HEADER = "Agentrun-Dispatch"


class SandboxEndpoint(msgspec.Struct, frozen=True):
    """A sandbox as the journal knows it."""

    namespace: str
    pod_name: str
    pod_uid: str
    pod_ip: str
    container_id: str


class SandboxAnswer(msgspec.Struct, frozen=True):
    """What the tool server said: an attacker's word. Headers in lower case."""

    status: int
    body: bytes
    headers: dict[str, str] = {}


class SandboxUnreachable(AgentrunError):
    """Nobody answered. `sent`: whether bytes may have arrived before the connection ended."""

    retry = Retry.REPEAT

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class SandboxPort(Protocol):
    """Two adapters: the Pod's IP (inside the cluster) and the API server's port-forward (outside)."""

    async def dispatch(
        self, endpoint: SandboxEndpoint, dispatch_jws: str, body: bytes, timeout: float
    ) -> SandboxAnswer:
        """Send one signed dispatch and wait for the whole answer, at most `timeout` seconds.

        Dials until somebody answers or time is up. Raises SandboxUnreachable.
        """
        ...
