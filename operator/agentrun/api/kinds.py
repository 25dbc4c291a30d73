"""Registry of the kinds: what the generator, the operator and the CLI need to know of each."""

from dataclasses import dataclass, field

from agentrun.api.agentclass import AgentClass
from agentrun.api.agentdefinition import AgentDefinition
from agentrun.api.agentrun import AgentRun
from agentrun.api.common import GROUP, VERSION, Manifest
from agentrun.api.toolapproval import ToolApproval
from agentrun.api.toolgrant import ToolGrant


@dataclass(frozen=True)
class Column:
    """A printer column of `kubectl get`."""

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


_AGE = Column("Age", ".metadata.creationTimestamp", "date")


def _condition(column: str, condition: str, what: str = "status") -> Column:
    return Column(column, f'.status.conditions[?(@.type=="{condition}")].{what}')


@dataclass(frozen=True)
class Kind:
    """One kind of the API group."""

    kind: str
    plural: str
    model: type[Manifest]
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = field(default=())
    group: str = GROUP
    version: str = VERSION

    @property
    def singular(self) -> str:
        """Lower-case singular name."""
        return self.kind.lower()

    @property
    def crd_name(self) -> str:
        """Name of the CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    @property
    def scope(self) -> str:
        """Kubernetes' word for where objects live."""
        return "Namespaced" if self.namespaced else "Cluster"

    @property
    def api_version(self) -> str:
        """`group/version`."""
        return f"{self.group}/{self.version}"


KINDS: tuple[Kind, ...] = (
    Kind(
        "AgentClass",
        "agentclasses",
        AgentClass,
        namespaced=False,
        short_names=("aclass",),
        columns=(_condition("Accepted", "Accepted"), _condition("Reason", "Accepted", "reason"), _AGE),
    ),
    Kind(
        "AgentDefinition",
        "agentdefinitions",
        AgentDefinition,
        short_names=("adef",),
        columns=(
            Column("Class", ".spec.className"),
            Column("Model", ".spec.template.modelName"),
            Column("Revision", ".status.latestRevision.name"),
            _condition("Accepted", "Accepted"),
            _condition("Reason", "Accepted", "reason"),
            _AGE,
        ),
    ),
    Kind(
        "AgentRun",
        "agentruns",
        AgentRun,
        short_names=("arun",),
        columns=(
            Column("State", ".status.state"),
            Column("Reason", ".status.reason"),
            Column("Definition", ".spec.definitionRef.name"),
            Column("Budget", ".status.budgetSummary"),
            Column("Waiting-On", ".status.waitingOn"),
            _AGE,
        ),
    ),
    Kind(
        "ToolGrant",
        "toolgrants",
        ToolGrant,
        short_names=("tgrant",),
        columns=(
            Column("Definition", ".spec.definitionName"),
            Column("Rule", ".spec.approval.rule"),
            Column("Expires", ".spec.expirationTime"),
            _condition("Accepted", "Accepted"),
            _condition("Reason", "Accepted", "reason"),
            _AGE,
        ),
    ),
    Kind(
        "ToolApproval",
        "toolapprovals",
        ToolApproval,
        short_names=("tappr",),
        columns=(
            Column("Run", ".spec.run.name"),
            Column("Call", ".spec.callID"),
            Column("Decision", ".spec.decision"),
            Column("By", ".spec.attribution.decision.username"),
            _condition("Accepted", "Accepted"),
            _condition("Reason", "Accepted", "reason"),
            _AGE,
        ),
    ),
)
BY_KIND: dict[str, Kind] = {kind.kind: kind for kind in KINDS}
