"""AgentClass: what the platform lets tenants use. Cluster-scoped, like a StorageClass; RBAC verb `use`."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from agentrun.api.common import (
    API_VERSION,
    CIDR,
    URL,
    Amount,
    ApiModel,
    Counter,
    Flag,
    HostName,
    LabelName,
    Manifest,
    ObjectName,
    Ports,
    Seconds,
    StatusModel,
    Word,
    one_of_rule,
    require_one_of,
)
from agentrun.api.conditions import Condition
from agentrun.api.limits import Limits
from agentrun.api.markers import atomic_list, map_list, rule, set_list
from agentrun.api.subjects import ApprovalRule, Subjects


class Provider(StrEnum):
    """Wire protocol of a model endpoint."""

    OPENAI_CHAT = "OpenAIChat"
    OPENAI_RESPONSES = "OpenAIResponses"
    ANTHROPIC = "Anthropic"
    SCRIPTED = "Scripted"


class SelfApproval(StrEnum):
    """Whether who requested a run may decide its approvals."""

    FORBIDDEN = "Forbidden"
    ALLOWED = "Allowed"


class OpenTarget(StrEnum):
    """What a sandbox may be able to reach although nothing allows it."""

    NODE_IP = "NodeIP"
    API_SERVER = "APIServer"


Tokens = Annotated[int, Field(strict=True, ge=1, le=100_000_000)]
LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=317)]
LabelValue = Annotated[str, StringConstraints(max_length=63)]
TolerationWord = Annotated[str, StringConstraints(max_length=32)]


class ModelPrice(ApiModel):
    """Price of a model, in millionths of a US dollar per million tokens. 0 is a price; absent means unknown."""

    input_micro_usd_per_mtok: Amount = Field(description="Price of a million input tokens, in micro US dollars.")
    cached_input_micro_usd_per_mtok: Amount | None = Field(
        default=None, description="Price of a million cached input tokens; absent: as uncached input."
    )
    output_micro_usd_per_mtok: Amount = Field(description="Price of a million output tokens, in micro US dollars.")


class SecretRef(ApiModel):
    """A Secret of type agentrun.dev/credential in the platform namespace."""

    name: ObjectName = Field(description="Name of the Secret.")


class Model(ApiModel):
    """One model that definitions of the class may name."""

    name: Word = Field(description="Name that templates use.")
    provider: Provider = Field(description="Protocol of the endpoint; Scripted needs none.")
    model_id: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = Field(
        default=None, description="The provider's name of the model; absent: the same as `name`."
    )
    endpoint: URL | None = Field(default=None, description="Base URL of the endpoint, refused for Scripted.")
    credential_ref: SecretRef | None = Field(
        default=None, description="Secret with the key, in the platform namespace; absent: no authentication."
    )
    price: ModelPrice | None = Field(
        default=None, description="A model without a price cannot be used under a money limit."
    )
    context_tokens: Tokens | None = Field(default=None, description="Largest context, in tokens.")
    max_output_tokens: Tokens | None = Field(default=None, description="Most output tokens of one call.")

    cel_rules = (
        rule(
            "self.provider == 'Scripted' ? !has(self.endpoint) && !has(self.credentialRef) : has(self.endpoint)",
            "set endpoint, or provider Scripted without endpoint and credentialRef",
        ),
    )

    @model_validator(mode="after")
    def _endpoint_fits_provider(self) -> Self:
        scripted = self.provider is Provider.SCRIPTED
        if (scripted and (self.endpoint or self.credential_ref)) or (not scripted and not self.endpoint):
            raise ValueError("set endpoint, or provider Scripted without endpoint and credentialRef")
        return self


class Images(ApiModel):
    """Which sandbox images templates may name."""

    allow: (
        Annotated[
            tuple[Annotated[str, StringConstraints(min_length=1, max_length=512)], ...],
            Field(max_length=64),
            set_list(),
        ]
        | None
    ) = Field(default=None, description="Allowed images, `*` stands for any characters; absent: every image.")
    require_digest: Flag = Field(default=False, description="Whether images must be named by digest.")


class RuntimeClasses(ApiModel):
    """Which RuntimeClasses sandboxes get."""

    default: ObjectName | None = Field(default=None, description="RuntimeClass of sandboxes; absent: the node's own.")
    allow: Annotated[tuple[ObjectName, ...], Field(max_length=32), set_list()] = Field(
        default=(), description="RuntimeClasses that sandboxes may have."
    )


class ClassBudget(ApiModel):
    """Limits that bound every run, quota or not."""

    default: Limits = Field(default_factory=Limits, description="Limits of a run that states none.")
    max: Limits = Field(default_factory=Limits, description="Largest limits a run may state.")


class EffectRules(ApiModel):
    """Least approval rule for each class of effect."""

    read_only: ApprovalRule | None = Field(default=None, description="Rule of ReadOnly tools; absent: None.")
    workspace: ApprovalRule | None = Field(default=None, description="Rule of Workspace tools; absent: None.")
    external: ApprovalRule | None = Field(default=None, description="Rule of External tools; absent: None.")


class ClassApproval(ApiModel):
    """Who decides, and when a decision is needed."""

    per_effect_class: EffectRules = Field(
        default_factory=EffectRules, description="Least approval rule for each class of effect."
    )
    approvers: Subjects = Field(default=(), description="Who may approve; empty: whoever holds verb `approve`.")
    self_approval: SelfApproval = Field(
        default=SelfApproval.FORBIDDEN, description="Whether the requester may approve; absent: Forbidden."
    )


class EgressRule(ApiModel):
    """One destination: a host name or an address range."""

    host: HostName | None = Field(default=None, description="Host name, `*.example.com` for its subdomains.")
    cidr: CIDR | None = Field(default=None, description="Address range.")
    ports: Ports = Field(default=(), description="TCP ports; empty: 443.")

    cel_rules = (one_of_rule("host", "cidr"),)

    @model_validator(mode="after")
    def _one_destination(self) -> Self:
        require_one_of(self, "host", "cidr")
        return self


class ClassEgress(ApiModel):
    """What sandboxes of the class may reach at most."""

    allow: Annotated[tuple[EgressRule, ...], Field(max_length=64), atomic_list()] = Field(
        default=(), description="Destinations that grants may open."
    )
    deny_cidrs: Annotated[tuple[CIDR, ...], Field(max_length=64), set_list()] = Field(
        default=(), description="Ranges that stay closed whatever a grant says."
    )
    tolerate_open: Annotated[tuple[OpenTarget, ...], Field(max_length=2), set_list()] = Field(
        default=(), description="Targets whose being reachable is reported, but does not stop a run."
    )


class Queue(ApiModel):
    """Admission queue of each tenant."""

    max_pending: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = Field(
        default=None, description="Most runs of a namespace that wait for admission; absent: 1000."
    )
    weight: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = Field(
        default=None, description="Share of a tenant against others; absent: 1."
    )


class Toleration(ApiModel):
    """A Pod toleration (core/v1)."""

    key: Annotated[str, StringConstraints(max_length=317)] | None = Field(default=None, description="Taint key.")
    operator: TolerationWord | None = Field(default=None, description="Exists or Equal.")
    value: LabelValue | None = Field(default=None, description="Taint value.")
    effect: TolerationWord | None = Field(default=None, description="NoSchedule, PreferNoSchedule or NoExecute.")
    toleration_seconds: Seconds | None = Field(default=None, description="Seconds that NoExecute is tolerated.")


class LocalRef(ApiModel):
    """An object in the namespace of the sandbox."""

    name: ObjectName = Field(description="Name of the object.")


class UserIDRange(ApiModel):
    """Range of user ids, one per run, where user namespaces are missing."""

    first: Annotated[int, Field(strict=True, ge=1000, le=4_000_000_000)] = Field(description="First user id.")
    count: Annotated[int, Field(strict=True, ge=1, le=100_000_000)] = Field(description="How many.")


class Scheduling(ApiModel):
    """Where sandboxes run."""

    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = Field(
        default_factory=dict, description="Labels that nodes must have."
    )
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32), atomic_list()] = Field(
        default=(), description="Taints that sandboxes tolerate."
    )
    image_pull_secrets: Annotated[tuple[LocalRef, ...], Field(max_length=16), map_list("name")] = Field(
        default=(), description="Pull secrets in the run's namespace."
    )
    user_ids: UserIDRange | None = Field(default=None, description="User ids for nodes without user namespaces.")


class AgentClassSpec(ApiModel):
    """What tenants may use."""

    models: Annotated[tuple[Model, ...], Field(max_length=64), map_list("name")] = Field(
        default=(), description="Models that templates may name."
    )
    images: Images = Field(default_factory=Images, description="Sandbox images.")
    runtime_classes: RuntimeClasses = Field(default_factory=RuntimeClasses, description="RuntimeClasses of sandboxes.")
    budget: ClassBudget = Field(default_factory=ClassBudget, description="Limits of every run.")
    require_budget_quota: Flag = Field(
        default=False, description="Refuse runs of a namespace that has no ResourceQuota with budget keys."
    )
    approval: ClassApproval = Field(default_factory=ClassApproval, description="Approvals.")
    egress: ClassEgress = Field(default_factory=ClassEgress, description="Egress of sandboxes.")
    queue: Queue = Field(default_factory=Queue, description="Admission queue.")
    scheduling: Scheduling = Field(default_factory=Scheduling, description="Where sandboxes run.")


class AgentClassStatus(StatusModel):
    """What the operator found."""

    observed_generation: Counter = Field(default=0, description="Generation that this status speaks of.")
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16), map_list("type")] = Field(
        default=(), description="Accepted."
    )


class AgentClass(Manifest):
    """What a platform lets tenants use: models, prices, images, limits, approvers. Needs verb `use` on the class."""

    api_version: Literal["agentrun.dev/v1alpha1"] = Field(default=API_VERSION, description="agentrun.dev/v1alpha1.")
    kind: Literal["AgentClass"] = Field(default="AgentClass", description="AgentClass.")
    spec: AgentClassSpec = Field(description="What tenants may use.")
    status: AgentClassStatus | None = Field(default=None, description="Written by the operator alone.")


__all__ = ["AgentClass", "AgentClassSpec", "EgressRule", "LabelName", "Model", "Provider"]
