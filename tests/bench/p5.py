"""P5: what a run costs the API server does not grow with its steps (audit log; R0.4)."""

import time
from typing import Any

from tests.bench.figure import Figure, say
from tests.bench.installed import audit, installed_chart, tenant
from tests.cluster.fixtures import Kubectl
from tests.e2e.install import NAMESPACE

Object = dict[str, Any]
FEW, MANY = 5, 50
ROUNDS = 3
# Not about any run: leader leases, judgements and tokens.
ASIDE = {"leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectreviews"}


def measure() -> Figure:
    """Writes of our own accounts for a run of 50 tool calls, less those for one of 5: at most 3 either way."""
    counts: dict[int, list[int]] = {FEW: [], MANY: []}
    with installed_chart() as kubectl, tenant(kubectl) as team:
        for steps in (FEW, MANY):
            team.apply(_definition(steps), _grant(steps))
        _writes_of(team, FEW, "warm-up")
        for number in range(ROUNDS):
            for steps, found in counts.items():
                found.append(_writes_of(team, steps, f"r{number}"))
    say(f"P5 API writes per run: {FEW} steps {counts[FEW]}, {MANY} steps {counts[MANY]}")
    apart = max(abs(many - few) for few, many in zip(counts[FEW], counts[MANY], strict=True))
    return Figure("P5", float(apart), "<=", 3.0, {f"writes_of_{steps}_steps": found for steps, found in counts.items()})


def _writes_of(team: Kubectl, steps: int, name: str) -> int:
    log = audit()
    team.apply(_run(steps, f"{name}-{steps}"))
    team.wait(f"agentrun/{name}-{steps}", "condition=Finished", 180)
    team.wait(f"agentrun/{name}-{steps}", "condition=Quiescent", 60)
    time.sleep(2)  # the last status and the last deletion
    team("delete", "agentrun", f"{name}-{steps}")
    return len(log.writes(_ours))


def _ours(event: Object) -> bool:
    ref = event.get("objectRef") or {}
    user = event["user"]["username"].startswith(f"system:serviceaccount:{NAMESPACE}:")
    token = ref.get("subresource") == "token" or ref.get("resource") in ASIDE
    writes = event["verb"] in ("create", "update", "patch", "delete")
    return user and writes and not token and "dryRun=" not in event["requestURI"]


def _definition(steps: int) -> Object:
    call = {"name": "run", "arguments": {"argv": ["true"]}}
    turns = [*({"toolCalls": [call], "finishReason": "ToolCalls"} for _ in range(steps)), {"text": "Done."}]
    template = {
        "instructions": "Do as the script says.",
        "modelName": "scripted",
        "modelParameters": {"turns": [{"finishReason": "Stop", **turn} for turn in turns]},
        "tools": [
            {
                "name": "run",
                "executor": "Builtin",
                "builtin": "Run",
                "sideEffectClass": "Workspace",
                "retryClass": "Reconcile",
            }
        ],
        "sandbox": {"image": "agentrun.test/busybox:1"},
    }
    return _object("AgentDefinition", f"steps-{steps}", {"template": template})


def _grant(steps: int) -> Object:
    return _object("ToolGrant", f"steps-{steps}", {"definitionName": f"steps-{steps}", "tools": [{"name": "run"}]})


def _run(steps: int, name: str) -> Object:
    budget = {"modelCalls": 200, "toolCalls": 200}
    return _object(
        "AgentRun", name, {"definitionRef": {"name": f"steps-{steps}"}, "input": {"text": "go"}, "budget": budget}
    )


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "agentrun.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
