"""AgentRun: one run of an agent. `spec` is the users', `status` the operator's."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentrun.api.agentrun_status import AgentRunStatus
from agentrun.api.common import (
    API_VERSION,
    ATTRIBUTION_DESCRIPTION,
    UID,
    Actor,
    ApiModel,
    Attribution,
    CallID,
    Counter,
    ItemID,
    LabelName,
    Manifest,
    ObjectName,
    Revision,
    Seconds,
    ShortText,
    Text4K,
)
from agentrun.api.limits import Limits
from agentrun.api.markers import map_list, rule
from agentrun.api.runinput import RunInput


class OperatingMode(StrEnum):
    """Whether the run schedules new work."""

    ACTIVE = "Active"
    PAUSED = "Paused"


class StopMode(StrEnum):
    """How the run is ended. One way: Cancel may become Kill, never back."""

    CANCEL = "Cancel"
    KILL = "Kill"


class DeliverAt(StrEnum):
    """When a steering message reaches the model."""

    NEXT_MODEL_CALL = "NextModelCall"
    AFTER_CURRENT_WORK = "AfterCurrentWork"


class ResolutionOutcome(StrEnum):
    """What a person found out about an effect of unknown outcome."""

    COMMITTED = "Committed"
    NOT_COMMITTED = "NotCommitted"
    COMPENSATED = "Compensated"


class RerunPolicy(StrEnum):
    """Whether a run applied again after its deletion runs again."""

    IF_CHANGED = "IfChanged"
    ALWAYS = "Always"


class DefinitionRef(ApiModel):
    """The definition that the run follows."""

    name: LabelName = Field(description="Name of the AgentDefinition, in the run's namespace.")
    revision: Revision | None = Field(
        default=None, description="A revision's name or template digest; needs verb `pin`; absent: by rollout."
    )


class Stop(ApiModel):
    """The wish to end the run."""

    mode: StopMode = Field(description="Cancel ends in order, Kill at once. Cancel may become Kill, never back.")
    message: ShortText | None = Field(default=None, description="Why, for people.")

    cel_rules = (
        rule("oldSelf.mode != 'Kill' || self.mode == 'Kill'", "stop goes one way: Kill cannot become Cancel"),
        rule(
            "self.mode != oldSelf.mode || (has(self.message) == has(oldSelf.message) "
            "&& (!has(self.message) || self.message == oldSelf.message))",
            "stop.message belongs to its stop and cannot change: restore it",
        ),
    )


class Steering(ApiModel):
    """A message to the running agent."""

    id: ItemID = Field(description="Id chosen by the writer, never used again in the run.")
    message: Annotated[Text4K, Field(min_length=1)] = Field(description="The message, at most 4 KiB.")
    deliver_at: DeliverAt = Field(description="NextModelCall or AfterCurrentWork.")

    cel_rules = (rule("self == oldSelf", "steering is append-only: restore this entry and add one with a new id"),)


class TopUp(ApiModel):
    """More budget."""

    id: ItemID = Field(description="Id chosen by the writer, never used again in the run.")
    add: Limits = Field(description="What is added to the granted limits.")

    cel_rules = (rule("self == oldSelf", "topUps is append-only: restore this entry and add one with a new id"),)


class Resolution(ApiModel):
    """What became of an effect whose outcome was unknown."""

    call_id: CallID = Field(description="Id of the call, like t3c0.")
    outcome: ResolutionOutcome = Field(description="NotCommitted means a new attempt and a new approval.")
    evidence: Text4K | None = Field(default=None, description="How it was found out.")

    cel_rules = (rule("self == oldSelf", "resolutions is append-only: a resolution cannot be changed"),)


class ForkFrom(ApiModel):
    """The point of another run that this one starts from."""

    name: ObjectName = Field(description="Name of the run, in the same namespace; needs verbs `get` and `fork`.")
    uid: UID = Field(description="UID of the run.")
    at: Annotated[Counter, Field(ge=1)] = Field(description="Sequence number of the last event to take over.")


class Parent(ApiModel):
    """The run and call that started this run."""

    name: ObjectName = Field(description="Name of the parent run.")
    uid: UID = Field(description="UID of the parent run.")
    call_id: CallID = Field(description="Id of the parent's call.")


def _kept(name: str) -> str:
    """CEL: the optional field `name` neither appears, goes, nor changes."""
    return f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})"


def _immutable(name: str) -> dict[str, str]:
    message = f"{name} is immutable: delete the run and create another one"
    return rule(_kept(name), message)


def _stays(name: str, fix: str) -> dict[str, str]:
    return rule(f"!has(oldSelf.{name}) || has(self.{name})", f"{name} cannot be removed: {fix}")


def _append_only(name: str, key: str) -> dict[str, str]:
    return rule(
        f"!has(oldSelf.{name}) || (has(self.{name}) && "
        f"oldSelf.{name}.all(o, self.{name}.exists(n, n.{key} == o.{key})))",
        f"{name} is append-only: put the removed entries back",
    )


IMMUTABLE_FIELDS = (
    "input",
    "budget",
    "priority",
    "dedupeKey",
    "startDeadlineSeconds",
    "forkFrom",
    "ttlSecondsAfterFinished",
    "rerunPolicy",
    "parent",
    "onBehalfOf",
)


class AgentRunSpec(ApiModel):
    """What people want of a run. Immutable but for operatingMode, stop, steering, topUps, resolutions, migrateTo."""

    definition_ref: DefinitionRef = Field(description="The definition that the run follows. Immutable.")
    input: RunInput | None = Field(default=None, description="What the run is given. Immutable.")
    budget: Limits | None = Field(default=None, description="Limits of the run. Immutable; see topUps.")
    priority: Annotated[int, Field(strict=True, ge=-1000, le=1000)] | None = Field(
        default=None, description="Order inside the tenant; higher first; absent: 0. Immutable."
    )
    dedupe_key: Annotated[str, StringConstraints(min_length=1, max_length=253)] | None = Field(
        default=None,
        description="Of the live runs of a namespace with the same key only the first runs. Immutable.",
    )
    start_deadline_seconds: Seconds | None = Field(
        default=None, description="Seconds to wait for admission; then it fails; absent: for ever. Immutable."
    )
    fork_from: ForkFrom | None = Field(default=None, description="The point of another run to start from. Immutable.")
    ttl_seconds_after_finished: Seconds | None = Field(
        default=None, description="Seconds after which the finished run is deleted; absent: kept. Immutable."
    )
    rerun_policy: RerunPolicy | None = Field(
        default=None,
        description="Whether the same run applied again after its deletion runs again; absent: IfChanged. Immutable.",
    )
    parent: Parent | None = Field(default=None, description="Set by the operator alone. Immutable.")
    on_behalf_of: Actor | None = Field(
        default=None, description="Whom a machine-made run acts for; set by the operator alone. Immutable."
    )
    operating_mode: OperatingMode | None = Field(
        default=None, description="Paused stops scheduling at a safe point; absent: Active. Needs verb `pause`."
    )
    stop: Stop | None = Field(default=None, description="The wish to end the run. Needs verb `stop` or `kill`.")
    steering: Annotated[tuple[Steering, ...], Field(max_length=32), map_list("id")] = Field(
        default=(), description="Messages to the running agent, append-only. Needs verb `steer`."
    )
    top_ups: Annotated[tuple[TopUp, ...], Field(max_length=16), map_list("id")] = Field(
        default=(), description="More budget, append-only. Needs verb `topup`."
    )
    resolutions: Annotated[tuple[Resolution, ...], Field(max_length=32), map_list("callID")] = Field(
        default=(), description="Outcomes that people found out, append-only. Needs verb `resolve`."
    )
    migrate_to: Revision | None = Field(
        default=None, description="Revision to go on with from the next safe point. Needs verb `migrate`."
    )
    attribution: Annotated[Attribution, Field(max_length=96)] | None = Field(
        default=None, description=ATTRIBUTION_DESCRIPTION
    )

    cel_rules = (
        rule(
            "self.definitionRef == oldSelf.definitionRef",
            "definitionRef is immutable: delete the run and create another one, or use migrateTo",
        ),
        *(_immutable(name) for name in IMMUTABLE_FIELDS),
        _stays("operatingMode", "set it to Active to resume"),
        _stays("stop", "a stop is never taken back; create another run"),
        _stays("migrateTo", "set it to the revision to go on with"),
        _append_only("steering", "id"),
        _append_only("topUps", "id"),
        _append_only("resolutions", "callID"),
    )


class AgentRun(Manifest):
    """One run of an agent, with what people want of it and what became of it."""

    api_version: Literal["agentrun.dev/v1alpha1"] = Field(default=API_VERSION, description="agentrun.dev/v1alpha1.")
    kind: Literal["AgentRun"] = Field(default="AgentRun", description="AgentRun.")
    spec: AgentRunSpec = Field(description="What people want of the run.")
    status: AgentRunStatus | None = Field(
        default=None, description="What became of it, derived from the journal; written by the operator alone."
    )

    cel_rules = (
        rule("self.metadata.name.size() <= 63", "metadata.name must be at most 63 characters"),
        rule(
            "!has(oldSelf.status) || !has(oldSelf.status.head) || (has(self.status) && has(self.status.head))",
            "status.head cannot be removed",
        ),
    )


__all__ = ["AgentRun", "AgentRunSpec", "AgentRunStatus"]
