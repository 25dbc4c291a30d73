"""Status of an AgentRun: derived from the journal, an output only, under 64 KiB always (the operator cuts)."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from agentrun.api.agentclass import OpenTarget
from agentrun.api.common import (
    UID,
    Amount,
    CallID,
    Counter,
    Digest,
    ObjectName,
    ShortText,
    StatusModel,
    Text4K,
    Time,
    UserName,
)
from agentrun.api.conditions import Condition
from agentrun.api.limits import LimitUse
from agentrun.api.markers import map_list, rule, set_list

LimitName = Annotated[str, StringConstraints(max_length=64)]
Label = Annotated[str, StringConstraints(max_length=64)]
Target = Annotated[str, StringConstraints(max_length=1024)]


class RunState(StrEnum):
    """The eleven states of R5, by their own names (not CamelCase: a recorded exception)."""

    CREATED = "created"
    READY = "ready"
    RUNNING = "running"
    WAITING_MODEL = "waiting_model"
    WAITING_TOOL = "waiting_tool"
    WAITING_APPROVAL = "waiting_approval"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    NEEDS_RECONCILIATION = "needs_reconciliation"


class RunDefinition(StatusModel):
    """What governs the run."""

    revision: ObjectName = Field(description="Name of the ControllerRevision.")
    digest: Digest = Field(description="Template digest.")
    reducer_version: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = Field(
        description="Version of the reducer that derives the state."
    )


class PendingCall(StatusModel):
    """A tool call in flight."""

    id: CallID = Field(description="Id of the call.")
    tool: Label = Field(description="Name of the tool.")
    target: Target | None = Field(default=None, description="What it acts on.")
    request_digest: Digest | None = Field(default=None, description="Digest of the request.")
    deadline: Time | None = Field(default=None, description="When it times out.")


class PendingApproval(StatusModel):
    """A decision that people must make, with all that R10 shows."""

    request_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(
        description="Id of this request; a changed payload or policy makes a new one."
    )
    call_id: CallID = Field(description="Id of the call.")
    request_digest: Digest = Field(description="Digest that the decision binds to.")
    tool: Label = Field(description="Name of the tool.")
    target: Target | None = Field(default=None, description="What it acts on.")
    arguments: Text4K | None = Field(default=None, description="Canonical arguments, where they fit.")
    arguments_digest: Digest | None = Field(default=None, description="Artifact with the arguments where they do not.")
    identity: UserName | None = Field(default=None, description="Who would act.")
    effect: ShortText | None = Field(default=None, description="Expected effect.")
    cost_micro_usd: Amount | None = Field(default=None, description="Expected cost, in micro US dollars.")
    expires_at: Time = Field(description="When the request expires.")


class UnresolvedEffect(StatusModel):
    """A call whose outcome is unknown."""

    call_id: CallID = Field(description="Id of the call.")
    tool: Label = Field(description="Name of the tool.")
    target: Target | None = Field(default=None, description="What it acted on.")
    since: Time = Field(description="When it became unknown.")
    message: ShortText | None = Field(default=None, description="What is known.")


class Milestones(StatusModel):
    """The road of a stop (R9)."""

    cancel_requested: Time | None = Field(default=None, description="When the stop was recorded.")
    acknowledged: Time | None = Field(default=None, description="From when nothing new was scheduled.")
    quiescent: Time | None = Field(default=None, description="From when all had stopped or was marked unresolved.")


class Artifact(StatusModel):
    """A blob of the content store."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=253)] = Field(
        description="Name, like workspace.diff."
    )
    digest: Digest = Field(description="Digest of its bytes.")
    bytes: Amount = Field(description="Size in bytes.")
    media_type: Annotated[str, StringConstraints(max_length=128)] | None = Field(
        default=None, description="Media type."
    )


class RunResult(StatusModel):
    """What came out."""

    summary: Text4K = Field(default="", description="The agent's own last words, cut at 4 KiB; not to be trusted.")
    artifacts: Annotated[tuple[Artifact, ...], Field(max_length=32), map_list("name")] = Field(
        default=(), description="Artifacts, first of all the diff."
    )


class ReplayedFrom(StatusModel):
    """The earlier run whose outcome this one shows."""

    run_uid: UID = Field(description="UID of the earlier run.")
    requester: UserName | None = Field(default=None, description="Who had requested it.")
    finished_at: Time = Field(description="When it had finished.")


class SandboxStatus(StatusModel):
    """The run's sandbox."""

    pod_name: ObjectName | None = Field(default=None, description="Name of the Pod.")
    pod_uid: UID | None = Field(default=None, description="UID of the Pod.")
    image_id: Annotated[str, StringConstraints(max_length=512)] | None = Field(
        default=None, description="Image as the node resolved it."
    )
    open_targets: Annotated[tuple[OpenTarget, ...], Field(max_length=2), set_list()] = Field(
        default=(), description="What it can reach although nothing allows it, tolerated by the class."
    )


class Head(StatusModel):
    """Where the journal stood; makes the API server refuse a stale writer."""

    epoch: Counter = Field(description="Epoch of the journal.")
    fence: Counter = Field(description="Fence of the run.")
    seq: Counter = Field(description="Sequence number of the last event shown.")
    hash: Annotated[str, StringConstraints(max_length=71, pattern=r"^(sha256:)?[0-9a-f]{64}$")] = Field(
        description="Hash of that event."
    )

    cel_rules = (
        rule(
            "self.epoch > oldSelf.epoch || (self.epoch == oldSelf.epoch "
            "&& self.fence >= oldSelf.fence && self.seq >= oldSelf.seq)",
            "stale status writer: head (epoch, fence, seq) must not go back; read the journal again",
        ),
    )


class AgentRunStatus(StatusModel):
    """What became of a run."""

    state: RunState | None = Field(default=None, description="State, derived from the journal.")
    reason: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="Why, in one word of a closed list."
    )
    message: ShortText | None = Field(default=None, description="Why, for people.")
    observed_generation: Counter = Field(default=0, description="Generation that this status speaks of.")
    definition: RunDefinition | None = Field(default=None, description="What governs the run.")
    input_digest: Digest | None = Field(default=None, description="Digest of the frozen input.")
    started_at: Time | None = Field(default=None, description="When it was admitted.")
    finished_at: Time | None = Field(default=None, description="When it ended.")
    pending_calls: Annotated[tuple[PendingCall, ...], Field(max_length=32), map_list("id")] = Field(
        default=(), description="Tool calls in flight."
    )
    pending_approvals: Annotated[tuple[PendingApproval, ...], Field(max_length=8), map_list("requestID")] = Field(
        default=(), description="Decisions that people must make."
    )
    budget: Annotated[dict[LimitName, LimitUse], Field(max_length=16)] = Field(
        default_factory=dict, description="State of each limit, by its name."
    )
    budget_summary: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="The limit that is nearest its end, for people."
    )
    waiting_on: Annotated[str, StringConstraints(max_length=128)] | None = Field(
        default=None, description="What the run waits on, for people."
    )
    unresolved_effects: Annotated[tuple[UnresolvedEffect, ...], Field(max_length=32), map_list("callID")] = Field(
        default=(), description="Calls whose outcome is unknown."
    )
    milestones: Milestones | None = Field(default=None, description="The road of a stop.")
    sandbox: SandboxStatus | None = Field(default=None, description="The run's sandbox.")
    result: RunResult | None = Field(default=None, description="What came out.")
    replayed_from: ReplayedFrom | None = Field(default=None, description="The earlier run whose outcome is shown.")
    head: Head | None = Field(default=None, description="Where the journal stood.")
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16), map_list("type")] = Field(
        default=(), description="All condition types, always present."
    )
