"""The state of a run: bounded by unfinished work, not by history; the transcript is a view (R19)."""

from typing import Literal

import msgspec

from agentrun.core.events import Artifact
from agentrun.core.ids import Tenant
from agentrun.core.ledger import Ledger
from agentrun.core.plan import RunPlan

StepKind = Literal["model", "tool", "put", "get", "verify"]
Phase = Literal["open", "flying", "closed"]


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One unit of outside work. `attempt` is the one that is issued or in flight; failures are those that count."""

    id: str
    kind: StepKind
    phase: Phase = "open"
    attempt: int = 1
    failures: int = 0
    not_before: int = 0
    deadline: int = 0
    fence: int = 0
    target: str = ""

    @property
    def flying(self) -> bool:
        """Dispatched, and no answer recorded."""
        return self.phase == "flying"


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """A proposed tool call of the current turn. `status` is set once it is closed: Ok, Error, Refused, Unknown."""

    step: Step
    tool: str
    arguments: str
    problem: str = ""
    detail: str = ""
    status: str = ""


class Pod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sandbox that has been seen running."""

    uid: str
    name: str
    ip: str
    container_id: str
    purpose: str
    node: str = ""


class Stop(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why the run is being brought to an end: a person's Cancel or Kill, a Deadline, or Deleted."""

    mode: str
    actor: str
    message: str
    at: int


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The one end of a run."""

    completed: bool
    reason: str
    message: str
    at: int


class Steer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user's message; `turn` is the model call that was given it, 0 while none was."""

    id: str
    message: str
    deliver_at: str
    turn: int = 0


class Milestones(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a stop, in microseconds UTC, 0 while not reached (R9)."""

    requested: int = 0
    acknowledged: int = 0
    quiescent: int = 0


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """S of requirement R2 under reducer version `reducer_version`."""

    tenant: Tenant
    namespace: str
    name: str
    uid: str
    definition: str
    template_digest: str
    input_digest: str
    requester: str
    plan: RunPlan
    reducer_version: int = 1
    workspace: str | None = None  # input tar
    seq: int = 0
    at: int = 0
    created_at: int = 0
    admitted_at: int = 0
    wall_clock_deadline: int = 0
    paused: bool = False
    mode_generation: int = 0
    stop: Stop | None = None
    turn: int = 0
    model: Step | None = None
    calls: tuple[Call, ...] = ()
    continuations: int = 0
    pods: tuple[Pod, ...] = ()
    sandbox_ready: bool = False
    put: Step | None = None
    get: Step | None = None
    verify: Step | None = None
    final: str | None = None  # the model's last word, once it proposes nothing more
    snapshot: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    steering: tuple[Steer, ...] = ()
    ledger: Ledger = Ledger()
    unresolved: tuple[str, ...] = ()
    milestones: Milestones = Milestones()
    outcome: Outcome | None = None
    evidence: int = 0

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step of the current work, closed ones included."""
        single = (self.model, self.put, self.get, self.verify)
        return tuple(step for step in single if step is not None) + tuple(call.step for call in self.calls)

    @property
    def flying(self) -> tuple[Step, ...]:
        """Steps in flight."""
        return tuple(step for step in self.steps if step.flying)

    def step(self, step_id: str) -> Step | None:
        """The step of that id, if it belongs to the current work."""
        return next((step for step in self.steps if step.id == step_id), None)

    def call(self, step_id: str) -> Call | None:
        """The tool call of that id in the current turn."""
        return next((call for call in self.calls if call.step.id == step_id), None)

    def pod(self, purpose: str) -> Pod | None:
        """The live sandbox for a purpose: work or verify."""
        return next((pod for pod in self.pods if pod.purpose == purpose), None)

    @property
    def terminal(self) -> bool:
        """Whether the outcome is fixed; it never changes again."""
        return self.outcome is not None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(State)


def encode_state(state: State) -> bytes:
    """The state as kept in a checkpoint; equal states give equal bytes."""
    return _encoder.encode(state)


def decode_state(body: bytes) -> State:
    """Raises msgspec.ValidationError on bytes that are no state of this version."""
    return _decoder.decode(body)
