"""Pods as the API server shows them at each point of their life."""

import copy
import datetime as dt
import json
from collections.abc import Callable
from typing import Any

from tests.unit.controller.sandboxes import admitted

Object = dict[str, Any]
NOW = dt.datetime(2026, 1, 1, 12, 0, 30, tzinfo=dt.UTC)
_PROVEN = {"terminated": {"exitCode": 0, "message": json.dumps({"ok": True})}}
_OPEN = {"terminated": {"exitCode": 1, "message": json.dumps({"ok": False, "open": ["10.0.0.2:443"]})}}
_RUNS: Object = {"running": {"startedAt": "2026-01-01T12:00:10Z"}}


def _waits(reason: str, message: str = "") -> Object:
    return {"waiting": {"reason": reason, "message": message}}


def pod(phase: str) -> Object:
    """A work Pod made 30 s before NOW."""
    found = copy.deepcopy(admitted())
    found["metadata"] |= {"uid": "pod-1", "creationTimestamp": "2026-01-01T12:00:00Z"}
    found["status"] = {"phase": "Pending", "podIP": "10.0.0.9"}
    if phase not in ("unscheduled", "unschedulable"):
        found["spec"]["nodeName"] = "node-1"
    _LIFE[phase](found)
    return found


def running() -> Object:
    """Status of a Pod that serves."""
    status: Object = pod("running")["status"]
    return status


def _containers(found: Object, guard: Object, sandbox: Object) -> None:
    found["status"] |= {
        "initContainerStatuses": [{"name": "guard", "state": copy.deepcopy(guard), "imageID": "i1"}],
        "containerStatuses": [
            {"name": "sandbox", "state": sandbox, "imageID": "i2", "containerID": "containerd://abc"}
        ],
    }


def _unschedulable(found: Object) -> None:
    found["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes: no memory"}
    ]


def _evicted(found: Object) -> None:
    found["status"] |= {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}


def _dead_node(found: Object) -> None:
    found["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]


_LIFE: dict[str, Callable[[Object], object]] = {
    "unscheduled": lambda _found: None,
    "unschedulable": _unschedulable,
    "pulling": lambda found: _containers(found, _waits("PodInitializing"), _waits("PodInitializing")),
    "unpullable": lambda found: _containers(found, _PROVEN, _waits("ImagePullBackOff", "refused")),
    "starting": lambda found: _containers(found, _RUNS, _waits("PodInitializing")),
    "refused": lambda found: _containers(found, _OPEN, _waits("PodInitializing")),
    "running": lambda found: _containers(found, _PROVEN, _RUNS),
    "evicted": _evicted,
    "dead node": _dead_node,
    "going": lambda found: found["metadata"].update(deletionTimestamp="2026-01-01T12:00:29Z"),
}
