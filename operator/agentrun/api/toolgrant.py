"""ToolGrant: which tools of a definition may act, with which arguments, credentials, egress and approvals."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from agentrun.api.agentclass import EgressRule
from agentrun.api.common import (
    API_VERSION,
    ATTRIBUTION_DESCRIPTION,
    ApiModel,
    Attribution,
    Counter,
    Digest,
    JsonValue,
    LabelName,
    Manifest,
    ObjectName,
    Seconds,
    StatusModel,
    Time,
    ToolName,
    require_one_of,
)
from agentrun.api.conditions import Condition
from agentrun.api.limits import Limits
from agentrun.api.markers import atomic_list, map_list, rule, set_list
from agentrun.api.subjects import ApprovalRule, Subjects

MAX_INTEGER = 2**53 - 1
Bound = Annotated[int, Field(strict=True, ge=-MAX_INTEGER, le=MAX_INTEGER)]
ArgumentPath = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^(/([^~/]|~[01])*)+$")]


class IntegerRange(ApiModel):
    """Bounds of an integer argument, both included."""

    min: Bound | None = Field(default=None, description="Least value; absent: no bound.")
    max: Bound | None = Field(default=None, description="Greatest value; absent: no bound.")

    cel_rules = (rule("has(self.min) || has(self.max)", "set min, max or both"),)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("set min, max or both")
        return self


class ArgumentMatch(ApiModel):
    """One condition on the arguments; set exactly one of equals, in, prefix, range."""

    path: ArgumentPath = Field(description="JSON Pointer (RFC 6901) into the arguments, like /repository/name.")
    equals: JsonValue = Field(default=None, description="The argument equals this JSON value.")
    in_: Annotated[tuple[JsonValue, ...], Field(min_length=1, max_length=64), atomic_list()] | None = Field(
        default=None, alias="in", description="The argument equals one of these JSON values."
    )
    prefix: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = Field(
        default=None, description="The argument is text that begins so."
    )
    range: IntegerRange | None = Field(default=None, description="The argument is an integer within the bounds.")

    @model_validator(mode="after")
    def _one_matcher(self) -> Self:
        require_one_of(self, "equals", "in_", "prefix", "range")
        return self


class GrantedTool(ApiModel):
    """One tool that may act."""

    name: ToolName = Field(description="Name of the tool in the template.")
    digest: Digest | None = Field(
        default=None, description="Digest of its contract; required unless the executor is Builtin."
    )
    match: Annotated[tuple[ArgumentMatch, ...], Field(max_length=16), atomic_list()] = Field(
        default=(), description="Conditions on the arguments; all must hold."
    )
    expression: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = Field(
        default=None, description="CEL expression over `args`; anything but true denies."
    )


class GrantApproval(ApiModel):
    """Approvals under the grant."""

    rule: ApprovalRule | None = Field(default=None, description="When a person must decide; absent: None.")
    approvers: Subjects = Field(default=(), description="Who may decide; empty: as the class says.")
    expiration_seconds: Annotated[Seconds, Field(le=604_800)] | None = Field(
        default=None, description="Seconds after which a request expires; absent: 3600."
    )


class CredentialRef(ApiModel):
    """A Secret of type agentrun.dev/credential in the grant's namespace."""

    name: ObjectName = Field(description="Name of the Secret; creating the grant needs `get` on it.")


class ToolGrantSpec(ApiModel):
    """What is granted."""

    definition_name: LabelName = Field(description="AgentDefinition whose runs may act; needs verb `grant` on it.")
    template_digests: Annotated[tuple[Digest, ...], Field(max_length=32), set_list()] | None = Field(
        default=None, description="Templates that the grant holds for; absent: all of the definition."
    )
    requesters: Subjects | None = Field(default=None, description="Whose runs may act; absent: everyone's.")
    tools: Annotated[tuple[GrantedTool, ...], Field(min_length=1, max_length=64), map_list("name")] = Field(
        description="Tools that may act."
    )
    approval: GrantApproval | None = Field(default=None, description="Approvals under the grant.")
    credentials: Annotated[tuple[CredentialRef, ...], Field(max_length=4), map_list("name")] = Field(
        default=(), description="Secrets that the broker may use, at most 4."
    )
    egress: Annotated[tuple[EgressRule, ...], Field(max_length=32), atomic_list()] = Field(
        default=(), description="Destinations that open for the whole sandbox, not for one call."
    )
    limits: Limits | None = Field(default=None, description="Limits of what acts under the grant.")
    expiration_time: Time | None = Field(default=None, description="When the grant ends; absent: never.")
    attribution: Annotated[Attribution, Field(max_length=4)] | None = Field(
        default=None, description=ATTRIBUTION_DESCRIPTION
    )


class ToolGrantStatus(StatusModel):
    """What the operator found."""

    observed_generation: Counter = Field(default=0, description="Generation that this status speaks of.")
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16), map_list("type")] = Field(
        default=(), description="Accepted."
    )


class ToolGrant(Manifest):
    """Lets tools of one definition act: tools, arguments, approvals, credentials, egress, until when."""

    api_version: Literal["agentrun.dev/v1alpha1"] = Field(default=API_VERSION, description="agentrun.dev/v1alpha1.")
    kind: Literal["ToolGrant"] = Field(default="ToolGrant", description="ToolGrant.")
    spec: ToolGrantSpec = Field(description="What is granted.")
    status: ToolGrantStatus | None = Field(default=None, description="Written by the operator alone.")
