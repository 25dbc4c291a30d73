"""One run in a list."""

from typing import Any

from agentrun.journal.port import RunHead


def summary(head: RunHead) -> dict[str, Any]:
    """RunSummary of decision 0004; times in microseconds UTC."""
    key = head.key
    return {
        "uid": key.run,
        "name": key.name,
        "namespace": key.namespace,
        "definition": key.definition,
        "templateDigest": key.template_digest,
        "requester": key.requester,
        "state": head.state,
        "terminal": head.terminal,
        "outcome": head.outcome,
        "seq": head.seq,
        "fence": head.fence,
        "createdAt": head.created_at,
        "updatedAt": head.updated_at,
    }
