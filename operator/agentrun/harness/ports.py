"""What the harness needs from the world: a journal, the broker, sandboxes, a look at a Pod, time and chance."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agentrun.broker.wire import ModelAnswer, ModelCall, SignAnswer, SignCall
from agentrun.core.errors import AgentrunError, Retry
from agentrun.journal.port import Journal
from agentrun.tools.sandbox import SandboxPort


class Broker(Protocol):
    """`agentrun.broker.client.BrokerClient`, or the broker's service in the same process."""

    async def model(self, call: ModelCall) -> ModelAnswer:
        """Raises BrokerError; cancelling ends the provider's request."""
        ...

    async def sign(self, call: SignCall) -> SignAnswer:
        """Raises BrokerError."""
        ...


@dataclass(frozen=True)
class PodIdentity:
    """A sandbox Pod as the API server describes it this very moment; empty texts where it says nothing."""

    uid: str
    ip: str
    container_id: str


class PodsUnavailable(AgentrunError):
    """The API server does not answer."""

    retry = Retry.REPEAT


class Pods(Protocol):
    """Fresh reads of sandbox Pods, never a cache."""

    async def identity(self, namespace: str, name: str) -> PodIdentity | None:
        """None if there is no such Pod. Raises PodsUnavailable if nobody can say."""
        ...


def wall_clock() -> int:
    """Microseconds UTC."""
    return time.time_ns() // 1000


@dataclass(frozen=True)
class Limits:
    """How this process works: seconds, but for `workers` (runs at a time) and `calls` (steps of a run at a time)."""

    workers: int = 50
    calls: int = 8
    lease: float = 15.0
    renew: float = 5.0
    poll: float = 1.0
    grace: float = 20.0


@dataclass(frozen=True)
class World:
    """Everything outside. `chance` gives jitter in [0, 1)."""

    journal: Journal
    broker: Broker
    sandbox: SandboxPort
    pods: Pods
    limits: Limits = Limits()
    clock: Callable[[], int] = wall_clock
    chance: Callable[[], float] = random.random
