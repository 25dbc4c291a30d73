"""Writes status: at once where somebody waits for it, else every 10 s at most, never when nothing changed."""

import time
from typing import Any

import msgspec

from agentrun.controller.names import MANAGER
from agentrun.controller.status import fitted
from agentrun.kube import Conflict, KubeClient, NotFound
from agentrun.kube.reading import member, members
from agentrun.kube.resources import RUNS

Object = dict[str, Any]
EVERY_SECONDS = 10.0
URGENT_CONDITIONS = ("Accepted", "Admitted", "SandboxReady", "Finished", "Quiescent", "CancelAcknowledged", "Paused")
URGENT_STATES = ("paused", "cancelling", "needs_reconciliation", "waiting_approval", "completed", "failed")


def urgent(before: Object, now: Object) -> bool:
    """Whether somebody may be waiting for this very change."""
    if before.get("state") != now.get("state") and {before.get("state"), now.get("state")} & {*URGENT_STATES, None}:
        return True
    old, new = _conditions(before), _conditions(now)
    return any(old.get(name) != new.get(name) for name in URGENT_CONDITIONS)


def _conditions(status: Object) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in members(status, "conditions")}


class StatusWriter:
    """One per operator; remembers what it wrote last for each run."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self._written: dict[str, tuple[float, bytes]] = {}  # as JSON: a fifth of what the objects take

    def last(self, uid: str, observed: Object) -> Object:
        """The status as last written, or as observed at the start (to keep transition times)."""
        written = self._written.get(uid)
        if written is None:
            return observed
        last: Object = msgspec.json.decode(written[1])
        return last

    async def write(self, run: Object, status: Object) -> float | None:
        """Write it now, or say after how many seconds to ask again."""
        meta, status = run["metadata"], fitted(status)
        before = self.last(meta["uid"], member(run, "status"))
        if before == status:
            return None
        wait = self._written.get(meta["uid"], (0.0, b""))[0] + EVERY_SECONDS - time.monotonic()
        if wait > 0 and not urgent(before, status):
            return wait
        body = {
            "apiVersion": "agentrun.dev/v1alpha1",
            "kind": "AgentRun",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
            "status": status,
        }
        try:
            await self._kube.apply(RUNS, body, manager=MANAGER, subresource="status")
        except NotFound:
            return None  # deleted meanwhile
        except Conflict:
            self._written.pop(meta["uid"], None)
            raise
        self._written[meta["uid"]] = (time.monotonic(), msgspec.json.encode(status))
        return None

    def forget(self, uid: str) -> None:
        """The run is gone."""
        self._written.pop(uid, None)
