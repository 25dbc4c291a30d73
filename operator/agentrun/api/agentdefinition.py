"""AgentDefinition: an agent as tenants write it; its template is frozen for each run."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentrun.api.common import (
    API_VERSION,
    ATTRIBUTION_DESCRIPTION,
    ApiModel,
    Attribution,
    Counter,
    Digest,
    ItemID,
    Manifest,
    ObjectName,
    Percent,
    Revision,
    Seconds,
    StatusModel,
    Time,
)
from agentrun.api.conditions import Condition
from agentrun.api.limits import Limits
from agentrun.api.markers import api_default, map_list, rule, set_list
from agentrun.api.runinput import ScheduledInput
from agentrun.api.template import Template


class LiveRuns(StrEnum):
    """What becomes of live runs when the stable revision moves."""

    PIN = "Pin"
    MIGRATE_AT_SAFE_POINT = "MigrateAtSafePoint"
    STOP = "Stop"


class Overlap(StrEnum):
    """What a firing does while the last run of its schedule lives."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class Canary(ApiModel):
    """A revision on trial."""

    revision: Revision = Field(description="Name of the revision, or its template digest.")
    percent: Percent = Field(description="Share of new runs, in percent.")


class Rollout(ApiModel):
    """Which revision new runs get, and what becomes of live ones."""

    stable: Revision | None = Field(default=None, description="Revision of new runs; absent: the newest template.")
    canary: Canary | None = Field(default=None, description="Revision on trial.")
    live_runs: LiveRuns | None = Field(default=None, description="What becomes of live runs; absent: Pin.")
    revoked_revisions: Annotated[tuple[Revision, ...], Field(max_length=64), set_list()] = Field(
        default=(), description="Revisions that no run may start with."
    )


class ScheduledRun(ApiModel):
    """What a firing starts."""

    input: ScheduledInput | None = Field(default=None, description="Input of the run.")
    budget: Limits | None = Field(default=None, description="Limits of the run.")
    priority: Annotated[int, Field(strict=True, ge=-1000, le=1000)] | None = Field(
        default=None, description="Order inside the tenant; higher first; absent: 0."
    )
    ttl_seconds_after_finished: Seconds | None = Field(
        default=None, description="Seconds after which the finished run is deleted; absent: kept."
    )


class Schedule(ApiModel):
    """A time table."""

    id: ItemID = Field(description="Stable id; a firing is identified by it and its time.")
    cron: Annotated[str, StringConstraints(min_length=9, max_length=128)] = Field(
        description="Five cron fields: minute, hour, day of month, month, day of week."
    )
    time_zone: (
        Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$")]
        | None
    ) = Field(default=None, description="IANA time zone; absent: UTC.")
    overlap: Overlap | None = Field(default=None, description="What a firing does while the last run lives.")
    starting_deadline_seconds: Seconds | None = Field(
        default=None, description="Seconds after which a missed firing is dropped."
    )
    run: ScheduledRun = Field(description="What a firing starts.")

    cel_rules = (
        rule(
            r"self.cron.matches('^\\S+ \\S+ \\S+ \\S+ \\S+$')",
            "cron has five fields with one space between: minute hour day-of-month month day-of-week",
            field_path=".cron",
        ),
    )


class AgentDefinitionSpec(ApiModel):
    """An agent."""

    class_name: Annotated[ObjectName, api_default("default")] = Field(
        default="default", description="AgentClass of the agent; needs verb `use` on it."
    )
    template: Template = Field(description="All that decides how a run behaves, hashed as a whole.")
    rollout: Rollout | None = Field(default=None, description="Which revision new runs get.")
    schedules: Annotated[tuple[Schedule, ...], Field(max_length=32), map_list("id")] = Field(
        default=(), description="Time tables; setting one needs `create` on agentruns."
    )
    attribution: Annotated[Attribution, Field(max_length=64)] | None = Field(
        default=None, description=ATTRIBUTION_DESCRIPTION
    )


class RevisionStatus(StatusModel):
    """One frozen template."""

    name: ObjectName = Field(description="Name of its ControllerRevision.")
    digest: Digest = Field(description="Template digest.")
    created_at: Time | None = Field(default=None, description="When it was frozen.")


class ToolDigest(StatusModel):
    """Digest of a tool of the newest template, as grants name it."""

    name: Annotated[str, StringConstraints(max_length=64)] = Field(description="Name of the tool.")
    digest: Digest = Field(description="Digest of its contract.")


class ScheduleStatus(StatusModel):
    """What a schedule did last and does next."""

    id: ItemID = Field(description="Id of the schedule.")
    last_scheduled_at: Time | None = Field(default=None, description="Time of the last firing.")
    next_at: Time | None = Field(default=None, description="Time of the next firing.")
    message: Annotated[str, StringConstraints(max_length=1024)] | None = Field(
        default=None, description="Why it does not fire."
    )


class AgentDefinitionStatus(StatusModel):
    """What the operator found."""

    observed_generation: Counter = Field(default=0, description="Generation that this status speaks of.")
    latest_revision: RevisionStatus | None = Field(default=None, description="The newest template, frozen.")
    revisions: Annotated[tuple[RevisionStatus, ...], Field(max_length=64), map_list("name")] = Field(
        default=(), description="Known revisions, newest first."
    )
    tools: Annotated[tuple[ToolDigest, ...], Field(max_length=64), map_list("name")] = Field(
        default=(), description="Digests of the tools of the newest template."
    )
    schedules: Annotated[tuple[ScheduleStatus, ...], Field(max_length=32), map_list("id")] = Field(
        default=(), description="Schedules."
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16), map_list("type")] = Field(
        default=(), description="Accepted, Reconciling, Stalled."
    )


class AgentDefinition(Manifest):
    """An agent: instructions, model, tools, sandbox and verification, with its roll-out and schedules."""

    api_version: Literal["agentrun.dev/v1alpha1"] = Field(default=API_VERSION, description="agentrun.dev/v1alpha1.")
    kind: Literal["AgentDefinition"] = Field(default="AgentDefinition", description="AgentDefinition.")
    spec: AgentDefinitionSpec = Field(description="The agent.")
    status: AgentDefinitionStatus | None = Field(default=None, description="Written by the operator alone.")

    cel_rules = (
        rule(
            "self.metadata.name.size() <= 52",
            "metadata.name must be at most 52 characters (revision names add 11)",
        ),
    )
