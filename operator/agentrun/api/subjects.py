"""People and accounts that grants and classes name, and the approval rules."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from agentrun.api.common import ApiModel, LabelName, UserName
from agentrun.api.markers import atomic_list, rule


class ApprovalRule(StrEnum):
    """When a person must decide, in rising order of strictness."""

    NONE = "None"
    FIRST_USE = "FirstUse"
    EACH_CALL = "EachCall"


class SubjectKind(StrEnum):
    """Kind of a subject, as in RBAC."""

    USER = "User"
    GROUP = "Group"
    SERVICE_ACCOUNT = "ServiceAccount"


class Subject(ApiModel):
    """A user, a group or a ServiceAccount."""

    kind: SubjectKind = Field(description="User, Group or ServiceAccount.")
    name: UserName = Field(description="Name of the user, group or ServiceAccount.")
    namespace: LabelName | None = Field(
        default=None, description="Namespace of a ServiceAccount; absent: the object's own. Refused for others."
    )

    cel_rules = (
        rule(
            "self.kind == 'ServiceAccount' || !has(self.namespace)",
            "namespace belongs to kind ServiceAccount: remove it, or set kind: ServiceAccount",
        ),
    )

    @model_validator(mode="after")
    def _namespace_fits_kind(self) -> Self:
        if self.namespace and self.kind is not SubjectKind.SERVICE_ACCOUNT:
            raise ValueError("namespace belongs to kind ServiceAccount: remove it, or set kind: ServiceAccount")
        return self


Subjects = Annotated[tuple[Subject, ...], Field(max_length=32), atomic_list()]
