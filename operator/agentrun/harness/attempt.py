"""One attempt of a step, as an effect sees it, and what it comes to."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from agentrun.broker.wire import RunName
from agentrun.core.errors import AgentrunError
from agentrun.core.events import Event
from agentrun.core.state import State, Step
from agentrun.core.transcript import Entry
from agentrun.harness.facts import Blobs, RunFacts
from agentrun.harness.ports import World
from agentrun.journal.port import Blob


class Superseded(AgentrunError):
    """A newer owner of the run has been obeyed: nothing of this one counts any more (R11)."""


class Result(msgspec.Struct, frozen=True):
    """What an attempt came to: events and the content they name, committed together."""

    events: tuple[Event, ...]
    blobs: tuple[Blob, ...] = ()


@dataclass(frozen=True)
class Attempt:
    """A dispatched step. `state()` is the newest state; `entries` only for a model call."""

    world: World
    facts: RunFacts
    blobs: Blobs
    step: Step
    fence: int
    state: Callable[[], State]
    entries: tuple[Entry, ...] = ()

    @property
    def run(self) -> RunName:
        """Who the run is, for the broker."""
        state = self.state()
        return RunName(state.namespace, state.name, state.uid)

    @property
    def seconds_left(self) -> float:
        """Until the attempt's deadline, never below 0."""
        return max(0.0, (self.step.deadline - self.world.clock()) / 1e6)
