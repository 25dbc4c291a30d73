"""Events: what has happened, as stored. Bodies hold digests of anything large (R2, R4)."""

from typing import Any

import msgspec

from agentrun.core.ids import Tenant
from agentrun.core.plan import RunPlan

KIND_VERSION = 1


class NewEvent(msgspec.Struct, frozen=True):
    """An event before it has a place in a history. `source_key` is null for results."""

    kind: str
    kind_version: int
    body: bytes
    source_key: str | None = None


class EventRecord(msgspec.Struct, frozen=True):
    """An event in its place. `recorded_at` in microseconds UTC; hashes as `sha256:<hex>`."""

    run: str
    seq: int
    fence: int
    kind: str
    kind_version: int
    source_key: str | None
    recorded_at: int
    body: bytes
    prev_hash: str
    hash: str


class EventBody(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """Root of every event body."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one model call in disjoint buckets; `estimated` when the provider sent none."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False


class Actor(msgspec.Struct, frozen=True):
    """Who did it, as the API server stamped it."""

    username: str
    uid: str = ""


# --- accepted facts: what people asked for and what was observed; appended by the operator -------------------------


class RunCreated(EventBody, frozen=True, tag="RunCreated"):
    """The run's identity, frozen definition and input. `workspace` is the input tar's blob digest."""

    tenant: Tenant
    namespace: str
    name: str
    uid: str
    definition: str
    template_digest: str
    input_digest: str
    requester: Actor
    plan: RunPlan
    workspace: str | None = None
    reducer_version: int = 1


class RunAdmitted(EventBody, frozen=True, tag="RunAdmitted"):
    """Identity, policy and quota held. Deadlines are absolute (microseconds UTC), 0 for none."""

    wall_clock_deadline: int = 0


class ModeChanged(EventBody, frozen=True, tag="ModeChanged"):
    """`spec.operatingMode`; an older generation than the newest seen is ignored (C14)."""

    paused: bool
    generation: int
    actor: Actor


class StopRequested(EventBody, frozen=True, tag="StopRequested"):
    """`spec.stop`: Cancel, or the escalation Kill."""

    mode: str  # Cancel | Kill
    actor: Actor
    message: str = ""


class SteeringAdded(EventBody, frozen=True, tag="SteeringAdded"):
    """A user's message into a live run; `message` is a blob digest."""

    id: str
    message: str
    deliver_at: str  # NextModelCall | AfterCurrentWork
    actor: Actor


class DeadlinePassed(EventBody, frozen=True, tag="DeadlinePassed"):
    """An absolute deadline of the run lies in the past: wallClock or idle."""

    name: str


class RunDeleted(EventBody, frozen=True, tag="RunDeleted"):
    """The AgentRun is missing from a full list: the tree is cancelled, unknown effects stay recorded."""


class RunRefused(EventBody, frozen=True, tag="RunRefused"):
    """What the run asks for cannot be done by this version: it ends before it starts, for good."""

    reason: str
    message: str


class Quiesced(EventBody, frozen=True, tag="Quiesced"):
    """No Pod of a stopping run exists any more (a fresh list at the API server said so) and nothing was in flight."""


class SandboxStarted(EventBody, frozen=True, tag="SandboxStarted"):
    """A Pod's container runs and its guard proved egress closed."""

    purpose: str  # work | verify
    pod_name: str
    pod_uid: str
    pod_ip: str
    container_id: str
    node: str = ""
    image_ids: tuple[str, ...] = ()


class SandboxLost(EventBody, frozen=True, tag="SandboxLost"):
    """The Pod is gone or its node is dead, without anybody of ours asking for it."""

    pod_uid: str
    reason: str
    message: str = ""


class SandboxGone(EventBody, frozen=True, tag="SandboxGone"):
    """The Pod object is deleted: the kubelet has confirmed that no process of it is left."""

    pod_uid: str


class SandboxRefused(EventBody, frozen=True, tag="SandboxRefused"):
    """The sandbox may not be used: EgressNotEnforced, PodMutated, image or pod refused for good."""

    pod_uid: str
    reason: str
    message: str = ""


# --- results: what the owner of the lease did; appended under its fence ---------------------------------------------


class LeaseTaken(EventBody, frozen=True, tag="LeaseTaken"):
    """The run changed hands: what was in flight under an older fence has lost its waiter."""

    owner: str


class StepDispatched(EventBody, frozen=True, tag="StepDispatched"):
    """Recorded before the first byte leaves (R6), with all of R3 (2). `deadline` in microseconds UTC."""

    step: str
    attempt: int
    key: str
    fingerprint: str
    actor: str
    scope: str
    deadline: int
    approval: str = ""
    target: str = ""  # Pod UID for sandbox steps


class ProposedCall(msgspec.Struct, frozen=True):
    """A tool call the model proposed. `arguments` is the blob of the model's own bytes."""

    id: str
    tool: str
    arguments: str
    problem: str = ""  # ErrorClass that answers it without dispatch: NotFound, InvalidArguments
    detail: str = ""


class ModelCompleted(EventBody, frozen=True, tag="ModelCompleted"):
    """A whole reply. `message` is the blob of it; `summary` its first 4 KiB if it proposes no call."""

    step: str
    attempt: int
    message: str
    finish: str  # Stop | ToolCalls | Length | ContentFilter
    usage: Usage
    cost_micro_usd: int = 0
    calls: tuple[ProposedCall, ...] = ()
    summary: str = ""
    adapter: str = ""
    verdict: str = ""


class ModelFailed(EventBody, frozen=True, tag="ModelFailed"):
    """No usable reply. `next_attempt_at` is durable: a restart resets no back-off (R12)."""

    step: str
    attempt: int
    error_class: str
    message: str
    next_attempt_at: int = 0
    usage: Usage | None = None
    counts: bool = True  # False: waiting for a rate limit costs time, not an attempt (C42)


class ToolCompleted(EventBody, frozen=True, tag="ToolCompleted"):
    """A tool call has its one answer. `output` is the blob the model is shown."""

    step: str
    attempt: int
    status: str  # Ok | Error | Refused | Unknown
    output: str
    error_class: str = ""
    message: str = ""
    output_bytes: int = 0
    truncated: bool = False
    receipt: str = ""
    verdict: str = ""
    replayed: bool = False


class WorkspacePut(EventBody, frozen=True, tag="WorkspacePut"):
    """A workspace is in the sandbox."""

    step: str
    attempt: int
    pod_uid: str
    digest: str = ""


class Artifact(msgspec.Struct, frozen=True):
    """A named blob of a run."""

    name: str
    digest: str
    media_type: str
    size: int


class WorkspaceGot(EventBody, frozen=True, tag="WorkspaceGot"):
    """The workspace was taken out; `snapshot` is the tar's blob, artifacts are computed outside the Pod."""

    step: str
    attempt: int
    snapshot: str
    artifacts: tuple[Artifact, ...] = ()


class VerificationCompleted(EventBody, frozen=True, tag="VerificationCompleted"):
    """Judged from a fresh Pod by exit code and parsed report, not by the model's word."""

    step: str
    attempt: int
    passed: bool
    summary: str
    artifacts: tuple[Artifact, ...] = ()


class StepFailed(EventBody, frozen=True, tag="StepFailed"):
    """A put, get or verify attempt failed; `next_attempt_at` 0 means no further attempt."""

    step: str
    attempt: int
    error_class: str
    message: str
    next_attempt_at: int = 0


class StepAbandoned(EventBody, frozen=True, tag="StepAbandoned"):
    """The owner stopped waiting (cancel, kill, pause of a model call): closed without an answer."""

    step: str
    attempt: int
    reason: str


ControlFact = (
    RunAdmitted | RunRefused | ModeChanged | StopRequested | SteeringAdded | DeadlinePassed | RunDeleted | Quiesced
)
SandboxFact = SandboxStarted | SandboxLost | SandboxGone | SandboxRefused
DispatchResult = LeaseTaken | StepDispatched | StepFailed | StepAbandoned
WorkResult = ModelCompleted | ModelFailed | ToolCompleted | WorkspacePut | WorkspaceGot | VerificationCompleted
Event = RunCreated | ControlFact | SandboxFact | DispatchResult | WorkResult

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Event)


def encode(event: Event, source_key: str | None = None) -> NewEvent:
    """The event as it will be stored."""
    return NewEvent(type(event).__name__, KIND_VERSION, _encoder.encode(event), source_key)


def decode(record: EventRecord) -> Event:
    """The typed body of a stored event. Raises msgspec.ValidationError on a body this build cannot read."""
    event: Event = _decoder.decode(record.body)
    return event
