"""cancel, kill, pause, resume: one merge patch of the spec by the caller, or the word that it has no effect (R9)."""

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from tests.unit.cli.cluster import Cluster, refusal

Verb = Callable[..., Result]
RUNNING = {"state": "waiting_tool"}
DONE = {"state": "completed", "reason": "Verified"}


def patches(cluster: Cluster) -> list[dict[str, Any]]:
    """Specs that were sent."""
    return [request.body["spec"] for request in cluster.requests if request.method == "PATCH"]


@pytest.mark.parametrize(
    ("arguments", "before", "sent", "said"),
    [
        (["cancel"], {}, {"stop": {"mode": "Cancel"}}, "cancel requested"),
        (["cancel", "--message", "enough"], {}, {"stop": {"mode": "Cancel", "message": "enough"}}, "cancel requested"),
        (["kill"], {}, {"stop": {"mode": "Kill"}}, "kill requested"),
        (["kill"], {"stop": {"mode": "Cancel"}}, {"stop": {"mode": "Kill"}}, "kill requested"),
        (["pause"], {}, {"operatingMode": "Paused"}, "pause requested"),
        (["pause"], {"operatingMode": "Active"}, {"operatingMode": "Paused"}, "pause requested"),
        (["resume"], {"operatingMode": "Paused"}, {"operatingMode": "Active"}, "resumed"),
    ],
)
def test_a_verb_is_one_patch_of_that_very_run(
    verb: Verb, cluster: Cluster, arguments: list[str], before: dict[str, Any], sent: dict[str, Any], said: str
) -> None:
    cluster.put("fix", RUNNING, {"definitionRef": {"name": "fixer"}, **before})
    result = verb(arguments[0], "fix", *arguments[1:])
    assert result.exit_code == 0
    assert result.stdout.startswith(f"agentrun.agentrun.dev/fix {said}")
    request = cluster.requests[-1]
    assert request.body == {"metadata": {"uid": cluster.run("fix")["metadata"]["uid"]}, "spec": sent}
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert request.query == {"fieldManager": "kubectl-agentrun", "fieldValidation": "Strict"}


@pytest.mark.parametrize(
    ("name", "status", "spec", "said"),
    [
        ("cancel", DONE, {}, "is finished already (completed, Verified): nothing to cancel"),
        ("kill", {"state": "failed", "reason": "Killed"}, {}, "is finished already (failed, Killed): nothing to kill"),
        ("resume", DONE, {"operatingMode": "Paused"}, "nothing to resume"),
        ("cancel", RUNNING, {"stop": {"mode": "Cancel"}}, "is being cancelled already"),
        ("cancel", RUNNING, {"stop": {"mode": "Kill"}}, "is being killed already"),
        ("kill", RUNNING, {"stop": {"mode": "Kill"}}, "is being killed already"),
        ("pause", RUNNING, {"stop": {"mode": "Cancel"}}, "is being cancelled: pause has no effect any more"),
        ("resume", RUNNING, {"stop": {"mode": "Kill"}}, "is being killed: resume has no effect any more"),
        ("pause", RUNNING, {"operatingMode": "Paused"}, "is paused already"),
        ("resume", RUNNING, {}, "is not paused"),
        ("resume", {"state": "paused", "reason": "BudgetExhausted"}, {}, "add to it with an entry in spec.topUps"),
    ],
)
def test_a_verb_without_effect_says_so_sends_nothing_and_succeeds(
    verb: Verb, cluster: Cluster, name: str, status: dict[str, Any], spec: dict[str, Any], said: str
) -> None:
    cluster.put("fix", status, {"definitionRef": {"name": "fixer"}, **spec})
    result = verb(name, "fix")
    assert result.exit_code == 0
    assert said in result.stdout
    assert patches(cluster) == []


def test_a_run_that_took_the_name_meanwhile_is_left_alone(verb: Verb, cluster: Cluster) -> None:
    cluster.put("fix", RUNNING)

    def replaced(request: Any) -> None:
        if request.method == "PATCH" and len(cluster.log) == 1:
            cluster.delete("fix")
            cluster.put("fix", RUNNING)

    cluster.rules.append(replaced)
    result = verb("kill", "fix")
    assert result.exit_code == 1
    assert "was changed or replaced by somebody else" in result.stderr
    assert "stop" not in cluster.run("fix")["spec"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (refusal(404, "NotFound", 'agentruns.agentrun.dev "fix" not found'), 'there is no run "fix"'),
        (refusal(404, "NotFound", 'namespaces "team" not found'), 'there is no namespace "team"'),
        (refusal(409, "Conflict", "the object has been modified"), "look at it and try again"),
        (refusal(403, "Forbidden", 'agentruns.agentrun.dev "fix" is forbidden: User "jane" cannot patch resource'),
         "--clusterrole=agentrun-runner --user=jane"),
        (refusal(422, "Invalid", "AgentRun is invalid", [
            {"field": "spec.stop", "message": 'Invalid value: "object": stop goes one way: no way back'}]),
         "  spec.stop: stop goes one way: no way back"),
        (refusal(403, "Forbidden", "agentruns.agentrun.dev \"fix\" is forbidden: ValidatingAdmissionPolicy 'p' with "
                 "binding 'p' denied request: spec.stop: you need verb `kill` on agentruns.agentrun.dev"),
         "not allowed: spec.stop: you need verb `kill` on agentruns.agentrun.dev"),
    ],
)  # fmt: skip
def test_a_refused_patch_is_plain_words(verb: Verb, cluster: Cluster, answer: Any, said: str) -> None:
    cluster.put("fix", RUNNING)
    cluster.rules.append(lambda request: answer if request.method == "PATCH" else None)
    result = verb("kill", "fix")
    assert result.exit_code == 1
    assert said in result.stderr


def test_a_name_is_never_a_path(verb: Verb, cluster: Cluster) -> None:
    assert verb("kill", "../agentdefinitions/x").exit_code == 1
    assert "..%2Fagentdefinitions%2Fx" in cluster.requests[-1].path
