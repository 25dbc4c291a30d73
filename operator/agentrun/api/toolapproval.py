"""ToolApproval: one person's decision on one request. Its own kind, so that plain RBAC separates deciders."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentrun.api.common import (
    API_VERSION,
    ATTRIBUTION_DESCRIPTION,
    UID,
    ApiModel,
    Attribution,
    CallID,
    Counter,
    Digest,
    Manifest,
    ObjectName,
    ShortText,
    StatusModel,
)
from agentrun.api.conditions import Condition
from agentrun.api.markers import map_list, rule


class Decision(StrEnum):
    """What a person decided. There is no default."""

    APPROVED = "Approved"
    DENIED = "Denied"


class RunRef(ApiModel):
    """The run that asked."""

    name: ObjectName = Field(description="Name of the run, in the same namespace; needs verb `approve` on it.")
    uid: UID = Field(description="UID of the run.")


class ToolApprovalSpec(ApiModel):
    """The decision, bound to one call of one run and to the exact bytes that were shown. Immutable."""

    run: RunRef = Field(description="The run that asked.")
    request_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(
        description="Id of the request, from status.pendingApprovals."
    )
    call_id: CallID = Field(description="Id of the call.")
    request_digest: Digest = Field(description="Digest of the request as it was shown.")
    decision: Decision = Field(description="Approved or Denied.")
    message: ShortText | None = Field(default=None, description="Why; a denial's reaches the model.")
    attribution: Annotated[Attribution, Field(max_length=4)] | None = Field(
        default=None, description=ATTRIBUTION_DESCRIPTION
    )

    cel_rules = (rule("self == oldSelf", "a decision is immutable: create another ToolApproval for a new request"),)


class ToolApprovalStatus(StatusModel):
    """What became of the decision."""

    observed_generation: Counter = Field(default=0, description="Generation that this status speaks of.")
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16), map_list("type")] = Field(
        default=(), description="Accepted; Superseded where another decision came first."
    )


class ToolApproval(Manifest):
    """One decision on one request of one run. The first accepted decision wins."""

    api_version: Literal["agentrun.dev/v1alpha1"] = Field(default=API_VERSION, description="agentrun.dev/v1alpha1.")
    kind: Literal["ToolApproval"] = Field(default="ToolApproval", description="ToolApproval.")
    spec: ToolApprovalSpec = Field(description="The decision.")
    status: ToolApprovalStatus | None = Field(default=None, description="Written by the operator alone.")
