"""What a decision is made from: objects as they were read, none of them from status (design 1, 6)."""

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

RUN_UID_LABEL = "agentrun.dev/run-uid"
PURPOSE_LABEL = "agentrun.dev/purpose"
DEFINITION_LABEL = "agentrun.dev/definition"


@dataclass(frozen=True)
class Authority:
    """Objects as the API server returned them; None for one that does not exist."""

    run: Object | None
    definition: Object | None
    revision: Object | None  # the ControllerRevision that claims the template's digest
    agent_class: Object | None
    grants: tuple[Object, ...] = ()
    pod: Object | None = None


def uid_of(obj: Object) -> str:
    """`metadata.uid`."""
    return str(obj["metadata"].get("uid", ""))


def labels_of(obj: Object) -> dict[str, str]:
    """`metadata.labels`."""
    return obj["metadata"].get("labels") or {}


def is_going(obj: Object) -> bool:
    """Whether the object is being deleted."""
    return obj["metadata"].get("deletionTimestamp") is not None
