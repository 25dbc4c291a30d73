"""Condition types, their closed lists of reasons, and the Condition object (metav1.Condition, bounded)."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from agentrun.api.common import Counter, ShortText, StatusModel, Time


class ConditionType(StrEnum):
    """Types of condition; on an AgentRun all of them are always present."""

    ACCEPTED = "Accepted"
    ADMITTED = "Admitted"
    SANDBOX_READY = "SandboxReady"
    APPROVAL_REQUIRED = "ApprovalRequired"
    PAUSED = "Paused"
    CANCEL_ACKNOWLEDGED = "CancelAcknowledged"
    QUIESCENT = "Quiescent"
    NEEDS_RECONCILIATION = "NeedsReconciliation"
    COMPLETE = "Complete"
    FAILED = "Failed"
    FINISHED = "Finished"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"


class ConditionStatus(StrEnum):
    """Status of a condition, as Kubernetes names it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class AcceptedReason(StrEnum):
    """Accepted: the object is understood, attributed, and what it names exists."""

    ACCEPTED = "Accepted"
    PENDING = "Pending"
    ALREADY_RAN = "AlreadyRan"
    AMBIGUOUS_CREDENTIALS = "AmbiguousCredentials"
    CLASS_NOT_FOUND = "ClassNotFound"
    DEFINITION_NOT_FOUND = "DefinitionNotFound"
    EXPIRED = "Expired"
    GIT_INPUT_UNAVAILABLE = "GitInputUnavailable"
    INPUT_NOT_FOUND = "InputNotFound"
    INVALID_EXPRESSION = "InvalidExpression"
    INVALID_INPUT = "InvalidInput"
    INVALID_TEMPLATE = "InvalidTemplate"
    MODEL_NOT_FOUND = "ModelNotFound"
    REQUEST_NOT_FOUND = "RequestNotFound"
    REVISION_NOT_FOUND = "RevisionNotFound"
    REVISION_REVOKED = "RevisionRevoked"
    RUN_NOT_FOUND = "RunNotFound"
    SUPERSEDED = "Superseded"
    TOOL_DIGEST_REQUIRED = "ToolDigestRequired"
    TOOL_NOT_FOUND = "ToolNotFound"
    UNATTRIBUTED = "Unattributed"
    UNSUPPORTED_FEATURE = "UnsupportedFeature"


class AdmittedReason(StrEnum):
    """Admitted: the run's budget is reserved and it may start."""

    ADMITTED = "Admitted"
    PENDING = "Pending"
    NOT_ACCEPTED = "NotAccepted"
    ALREADY_RAN = "AlreadyRan"
    POLICY_DENIED = "PolicyDenied"
    QUEUE_FULL = "QueueFull"
    QUOTA_EXCEEDED = "QuotaExceeded"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    STOPPED = "Stopped"


class SandboxReadyReason(StrEnum):
    """SandboxReady: the run's Pod answers, its egress proven closed."""

    READY = "Ready"
    NOT_NEEDED = "NotNeeded"
    PENDING = "Pending"
    POD_SCHEDULED = "PodScheduled"
    UNSCHEDULABLE = "Unschedulable"
    PULLING = "Pulling"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    STARTING = "Starting"
    EGRESS_DOWN = "EgressDown"
    EGRESS_NOT_ENFORCED = "EgressNotEnforced"
    POD_MUTATED = "PodMutated"
    POLICY_DENIED = "PolicyDenied"
    QUOTA_EXCEEDED = "QuotaExceeded"
    SANDBOX_LOST = "SandboxLost"
    SANDBOX_REPLACED = "SandboxReplaced"
    STOPPED = "Stopped"


class ApprovalRequiredReason(StrEnum):
    """ApprovalRequired: a person must decide before anything goes on."""

    NOT_REQUIRED = "NotRequired"
    AWAITING_DECISION = "AwaitingDecision"


class PausedReason(StrEnum):
    """Paused: nothing new is scheduled until a person acts."""

    ACTIVE = "Active"
    DRAINING = "Draining"
    PAUSED_BY_USER = "PausedByUser"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    NO_PROGRESS = "NoProgress"
    STOPPING = "Stopping"


class CancelAcknowledgedReason(StrEnum):
    """CancelAcknowledged: the stop is recorded and nothing new is scheduled."""

    NOT_REQUESTED = "NotRequested"
    ACKNOWLEDGED = "Acknowledged"


class QuiescentReason(StrEnum):
    """Quiescent: everything the harness owns is proven to have stopped."""

    ACTIVE = "Active"
    STOPPING = "Stopping"
    STOPPED = "Stopped"


class NeedsReconciliationReason(StrEnum):
    """NeedsReconciliation: an effect's outcome is unknown."""

    NO_UNRESOLVED_EFFECTS = "NoUnresolvedEffects"
    OUTCOME_UNKNOWN = "OutcomeUnknown"
    JOURNAL_ROLLED_BACK = "JournalRolledBack"


class CompleteReason(StrEnum):
    """Complete: the run ended and did what it should."""

    NOT_FINISHED = "NotFinished"
    COMPLETED = "Completed"
    VERIFIED = "Verified"
    ALREADY_RAN = "AlreadyRan"
    FAILED = "Failed"


class FailedReason(StrEnum):
    """Failed: the run ended otherwise; the reason says how."""

    NOT_FINISHED = "NotFinished"
    COMPLETED = "Completed"
    ALREADY_RAN = "AlreadyRan"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    CANCELLED = "Cancelled"
    EGRESS_NOT_ENFORCED = "EgressNotEnforced"
    GIT_INPUT_UNAVAILABLE = "GitInputUnavailable"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    INTERNAL_ERROR = "InternalError"
    INVALID_INPUT = "InvalidInput"
    KILLED = "Killed"
    MODEL_FAILED = "ModelFailed"
    NEEDS_INPUT = "NeedsInput"
    NO_PROGRESS = "NoProgress"
    OUTPUT_TRUNCATED = "OutputTruncated"
    POD_MUTATED = "PodMutated"
    POLICY_DENIED = "PolicyDenied"
    QUEUE_FULL = "QueueFull"
    SANDBOX_LOST = "SandboxLost"
    SANDBOX_REPLACED = "SandboxReplaced"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    UNSUPPORTED_FEATURE = "UnsupportedFeature"
    VERIFICATION_FAILED = "VerificationFailed"


class FinishedReason(StrEnum):
    """Finished: true however the run ended; what scripts wait for."""

    NOT_FINISHED = "NotFinished"
    COMPLETED = "Completed"
    FAILED = "Failed"
    ALREADY_RAN = "AlreadyRan"


class ReconcilingReason(StrEnum):
    """Reconciling (kstatus): the operator has not yet brought the object to where it can rest."""

    PROGRESSING = "Progressing"
    RECONCILED = "Reconciled"
    BLOCKED = "Blocked"


class StalledReason(StrEnum):
    """Stalled (kstatus): it will not move on without a person."""

    NOT_STALLED = "NotStalled"
    BLOCKED = "Blocked"
    FAILED = "Failed"


REASONS: dict[ConditionType, type[StrEnum]] = {
    ConditionType.ACCEPTED: AcceptedReason,
    ConditionType.ADMITTED: AdmittedReason,
    ConditionType.SANDBOX_READY: SandboxReadyReason,
    ConditionType.APPROVAL_REQUIRED: ApprovalRequiredReason,
    ConditionType.PAUSED: PausedReason,
    ConditionType.CANCEL_ACKNOWLEDGED: CancelAcknowledgedReason,
    ConditionType.QUIESCENT: QuiescentReason,
    ConditionType.NEEDS_RECONCILIATION: NeedsReconciliationReason,
    ConditionType.COMPLETE: CompleteReason,
    ConditionType.FAILED: FailedReason,
    ConditionType.FINISHED: FinishedReason,
    ConditionType.RECONCILING: ReconcilingReason,
    ConditionType.STALLED: StalledReason,
}


class Condition(StatusModel):
    """One condition (metav1.Condition)."""

    type: ConditionType = Field(description="Type of the condition.")
    status: ConditionStatus = Field(description="True, False or Unknown.")
    observed_generation: Counter = Field(default=0, description="Generation of the object that this speaks of.")
    last_transition_time: Time = Field(description="When `status` last changed.")
    reason: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$")] = Field(
        description="One word of a closed list per type (docs/reference/api.md)."
    )
    message: ShortText = Field(default="", description="For people; not to be parsed.")
