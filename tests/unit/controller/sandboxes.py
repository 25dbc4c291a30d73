"""A sandbox as the operator would ask for it, and what an API server makes of it."""

import copy
from typing import Any

from agentrun.controller.pod import GuardTargets, PublicKey, SandboxWanted, build_pod
from agentrun.core.plan import RunPlan

Object = dict[str, Any]
UID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def wanted(**changes: Any) -> SandboxWanted:
    """A work sandbox of run `fix` in namespace `team`."""
    given: Object = {
        "namespace": "team",
        "run_name": "fix",
        "run_uid": UID,
        "purpose": "work",
        "number": 1,
        "sandbox": {"image": "images.test/python:1"},
        "plan": RunPlan(),
        "keys": (PublicKey("k1", "cHVibGlj"),),
        "guard": GuardTargets(denied=("10.0.0.1:8081",), api="10.0.0.2:443"),
        "tool_server_image": "images.test/tool-server:1",
    }
    return SandboxWanted(**(given | changes))


def admitted(pod: Object | None = None) -> Object:
    """The Pod with the defaults that an API server writes (read from a real 1.36)."""
    found = copy.deepcopy(pod or build_pod(wanted()))
    spec = found["spec"]
    spec |= {"schedulerName": "default-scheduler", "priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
    spec["serviceAccount"] = spec["serviceAccountName"]
    for container in (*spec["initContainers"], *spec["containers"]):
        container["terminationMessagePath"] = "/dev/termination-log"
        cpu = container["resources"]["limits"]["cpu"]
        container["resources"]["limits"]["cpu"] = "1" if cpu == "1000m" else cpu
        if not container["volumeMounts"]:
            del container["volumeMounts"]
    return found
