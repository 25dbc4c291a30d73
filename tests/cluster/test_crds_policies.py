"""Verbs, guards of status, quotas and sandboxes: who may do what, tried on the real API server."""

import itertools
from typing import Any

import pytest
from tests.cluster.crds_api import OPERATOR, Api, Refused, eventually
from tests.cluster.crds_setup import ADMISSION, RUN_VERBS, Place, admin, named, objects, place
from tests.unit.api.examples import AGENT_CLASS, AGENT_DEFINITION, AGENT_RUN, TOOL_APPROVAL, TOOL_GRANT, edited

from agentrun.api.policies.guards import BUDGET_KEYS

pytestmark = pytest.mark.cluster
__all__ = ["admin", "place"]
_numbers = itertools.count(1)
VALIDATING = [item["metadata"]["name"] for item in objects() if item["kind"] == "ValidatingAdmissionPolicy"]
STEERING = [{"id": "a", "message": "x", "deliverAt": "NextModelCall"}]
ACTS: list[tuple[str, str, Any]] = [
    ("pause", "operatingMode", "Paused"),
    ("stop", "stop", {"mode": "Cancel"}),
    ("kill", "stop", {"mode": "Kill"}),
    ("steer", "steering", STEERING),
    ("topup", "topUps", [{"id": "a", "add": {"modelCalls": 1}}]),
    ("resolve", "resolutions", [{"callID": "t1c0", "outcome": "Committed"}]),
    ("migrate", "migrateTo", "fixer-0123456789"),
]


def forbidden(do: Any, *fix: str) -> None:
    """`do` is refused as forbidden by a policy of ours, whose message holds `fix`."""
    with pytest.raises(Refused) as caught:
        do()
    assert caught.value.code in (403, 422), caught.value
    assert "ValidatingAdmissionPolicy" in caught.value.message, caught.value
    for text in fix:
        assert text in caught.value.message


def new_run(place: Place) -> str:
    """Path of a new run."""
    name = f"run-{next(_numbers)}"
    place.api.create(place.runs(), named(AGENT_RUN, name))
    return f"{place.runs()}/{name}"


@pytest.mark.parametrize(("verb", "field", "value"), ACTS)
def test_act_needs_its_verb_R9(place: Place, verb: str, field: str, value: Any) -> None:
    path = new_run(place)
    others = [other for other in RUN_VERBS if other != verb]
    without, holder = place.person("eve", *others), place.person("alice", verb)
    forbidden(lambda: without.patch(path, {"spec": {field: value}}), f"spec.{field}: you need verb `{verb}`")
    run = edited(named(AGENT_RUN, "at-creation"), f"spec.{field}", value)
    forbidden(lambda: without.create(place.runs(), run, dryRun="All"), f"spec.{field}: you need verb `{verb}`")
    holder.create(place.runs(), run, dryRun="All")
    assert holder.patch(path, {"spec": {field: value}})["spec"][field] == value
    without.patch(path, {"metadata": {"labels": {"seen": "yes"}}})


def test_all_acts_at_once_stay_within_the_cost_of_a_policy(place: Place) -> None:
    run = named(AGENT_RUN, "everything")
    for _, field, value in ACTS:
        run = edited(run, f"spec.{field}", value)
    run = edited(run, "spec.definitionRef.revision", "fixer-0123456789")
    run = edited(run, "spec.forkFrom", {"name": "source", "uid": "u", "at": 1})
    place.person("alice", *RUN_VERBS).create(place.runs(), run, dryRun="All")


def test_resume_needs_the_verb_too(place: Place) -> None:
    path = new_run(place)
    place.person("alice", "pause").patch(path, {"spec": {"operatingMode": "Paused"}})
    eve = place.person("eve", "stop")
    forbidden(lambda: eve.patch(path, {"spec": {"operatingMode": "Active"}}), "verb `pause`")


def test_kill_after_cancel_needs_kill(place: Place) -> None:
    path = new_run(place)
    alice = place.person("alice", "stop")
    alice.patch(path, {"spec": {"stop": {"mode": "Cancel"}}})
    forbidden(lambda: alice.patch(path, {"spec": {"stop": {"mode": "Kill"}}}), "verb `kill`")


def test_choosing_a_revision_needs_pin_R7(place: Place) -> None:
    run = edited(AGENT_RUN, "spec.definitionRef.revision", "fixer-0123456789")
    forbidden(lambda: place.person("eve").create(place.runs(), run, dryRun="All"), "you need verb `pin`")
    place.person("alice", "pin").create(place.runs(), run, dryRun="All")


def test_fork_needs_the_verb_on_its_source(place: Place) -> None:
    def fork_of(source: str) -> dict[str, Any]:
        return edited(AGENT_RUN, "spec.forkFrom", {"name": source, "uid": "u", "at": 1})

    alice = place.person("alice", "fork-source")
    alice.create(place.runs(), fork_of("source"), dryRun="All")
    forbidden(lambda: alice.create(place.runs(), fork_of("another"), dryRun="All"), "verb `fork` on the source run")
    blind = place.api.as_user("gil", "creators", "verb-fork-source")
    forbidden(lambda: blind.create(place.runs(), fork_of("source"), dryRun="All"), "verb `get` on the source run")


@pytest.mark.parametrize(
    ("field", "value"),
    [("parent", {"name": "p", "uid": "u", "callID": "t1c0"}), ("onBehalfOf", {"username": "boss", "groups": ["all"]})],
)
def test_machine_made_marks_are_the_operators_alone(place: Place, field: str, value: Any) -> None:
    run = edited(AGENT_RUN, f"spec.{field}", value)
    fix = "set by the operator alone: remove them"
    forbidden(lambda: place.api.create(place.runs(), run, dryRun="All"), fix)
    impostor = place.api.as_user(OPERATOR.replace("agentrun-system", place.namespace), "system:masters")
    forbidden(lambda: impostor.create(place.runs(), run, dryRun="All"), fix)
    place.operator().create(place.runs(), run, dryRun="All")


def test_parameters_are_bounded(place: Place) -> None:
    run = edited(AGENT_RUN, "spec.input.parameters", {"deep": [{"text": "x" * 65_600}]})
    forbidden(lambda: place.api.create(place.runs(), run, dryRun="All"), "at most 65536 bytes; use input.files")


def test_definition_needs_use_of_its_class(place: Place) -> None:
    where = place.of("agentdefinitions")
    alice, eve = place.person("alice", "use"), place.person("eve")
    forbidden(lambda: eve.create(where, AGENT_DEFINITION, dryRun="All"), "verb `use` on that AgentClass")
    other = edited(AGENT_DEFINITION, "spec.className", "other")
    forbidden(lambda: alice.create(where, other, dryRun="All"), "verb `use` on that AgentClass")
    alice.create(where, named(AGENT_DEFINITION, "used"))
    eve.patch(f"{where}/used", {"spec": {"rollout": {"liveRuns": "Stop"}}})
    change = {"spec": {"template": {"instructions": "Other."}}}
    forbidden(lambda: eve.patch(f"{where}/used", change), "verb `use` on that AgentClass")


def test_schedule_needs_create_on_runs_R13(place: Place) -> None:
    where = place.of("agentdefinitions")
    definer = place.api.as_user("dora", "definers", "verb-use")
    forbidden(lambda: definer.create(where, AGENT_DEFINITION, dryRun="All"), "needs verb `create` on agentruns")
    definer.create(where, edited(AGENT_DEFINITION, "spec.schedules", None), dryRun="All")


def test_inline_text_of_a_schedule_is_bounded(place: Place) -> None:
    files = [{"path": f"f{index}", "text": "x" * 70_000} for index in range(2)]
    definition = edited(AGENT_DEFINITION, "spec.schedules.0.run.input.files", files)
    fix = "spec.schedules[].run.input: inline text of input.files is at most 131072 bytes together"
    forbidden(lambda: place.api.create(place.of("agentdefinitions"), definition, dryRun="All"), fix)


def test_template_is_bounded(place: Place) -> None:
    definition = edited(AGENT_DEFINITION, "spec.template.modelParameters", {"x": ["y" * 270_000]})
    forbidden(lambda: place.api.create(place.of("agentdefinitions"), definition, dryRun="All"), "at most 262144 bytes")


def grant(*secrets: int) -> dict[str, Any]:
    """A ToolGrant with credentials `secret-<n>`."""
    return edited(TOOL_GRANT, "spec.credentials", [{"name": f"secret-{index}"} for index in secrets])


def test_grant_needs_its_verb_on_the_definition(place: Place) -> None:
    where = place.of("toolgrants")
    forbidden(lambda: place.person("eve", "use").create(where, grant(), dryRun="All"), "verb `grant`")
    alice = place.person("alice", "grant")
    alice.create(where, grant(), dryRun="All")
    other = edited(grant(), "spec.definitionName", "other")
    forbidden(lambda: alice.create(where, other, dryRun="All"), "verb `grant` on that AgentDefinition")


@pytest.mark.parametrize("missing", range(4))
def test_grant_needs_get_on_each_secret_R21(place: Place, missing: int) -> None:
    where = place.of("toolgrants")
    held = [f"secret-{index}" for index in range(4) if index != missing]
    alice = place.person("alice", "grant", *held)
    fix = f"spec.credentials[{missing}]: you need verb `get` on that Secret"
    forbidden(lambda: alice.create(where, grant(0, 1, 2, 3), dryRun="All"), fix)
    place.person("bob", "grant", *held, f"secret-{missing}").create(where, grant(0, 1, 2, 3), dryRun="All")


def test_change_of_a_grant_needs_the_verb_again(place: Place) -> None:
    where = place.of("toolgrants")
    place.person("alice", "grant").create(where, named(grant(), "held"))
    eve = place.person("eve")
    forbidden(lambda: eve.patch(f"{where}/held", {"spec": {"requesters": None}}), "verb `grant`")
    eve.patch(f"{where}/held", {"metadata": {"labels": {"a": "b"}}})


def test_approval_needs_approve_on_the_run_R10(place: Place) -> None:
    where = place.of("toolapprovals")
    forbidden(lambda: place.person("eve", "steer").create(where, TOOL_APPROVAL, dryRun="All"), "verb `approve`")
    place.person("alice", "approve").create(where, TOOL_APPROVAL, dryRun="All")


STATUSES = [
    ("agentdefinitions", AGENT_DEFINITION),
    ("agentruns", AGENT_RUN),
    ("toolgrants", edited(TOOL_GRANT, "spec.credentials", None)),
    ("toolapprovals", TOOL_APPROVAL),
    ("agentclasses", AGENT_CLASS),
]


@pytest.mark.parametrize(("plural", "manifest"), STATUSES)
def test_only_the_operator_writes_status(place: Place, plural: str, manifest: dict[str, Any]) -> None:
    name = f"status-{next(_numbers)}"
    created = place.api.create(place.of(plural), named(manifest, name) | {"status": {"observedGeneration": 7}})
    path = f"{place.of(plural)}/{name}"
    assert "status" not in created
    change = {"status": {"observedGeneration": 1}}
    fix = "written by the operator alone: change spec instead"
    impostor = place.api.as_user(OPERATOR.replace("agentrun-operator", "default"), "system:masters")
    for who in (place.api, impostor):
        forbidden(lambda api=who: api.patch(f"{path}/status", change), fix)
        forbidden(lambda api=who: api.apply(f"{path}/status", _bare(created) | change), fix)
        forbidden(lambda api=who: api.replace(f"{path}/status", created | change), fix)
    assert place.operator().patch(f"{path}/status", change)["status"] == {"observedGeneration": 1}
    place.api.delete(path)


def _bare(manifest: dict[str, Any]) -> dict[str, Any]:
    return {key: manifest[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": manifest["metadata"]["name"]}}


def quota(hard: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A ResourceQuota."""
    body = {"hard": hard} | spec
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"generateName": "q-"}, "spec": body}


QUOTAS: list[tuple[dict[str, Any], str]] = [
    (quota({"budget.agentrun.dev/cost-microusdd": "1"}), "known keys are budget.agentrun.dev/cost-microusd"),
    (quota({"budget.agentrun.dev/Model-Calls": "1"}), "unknown budget key"),
    (quota({"budgets.agentrun.dev/model-calls": "1"}), "unknown budget key"),
    (quota({"agentrun.dev/model-calls": "1"}), "unknown budget key"),
    (quota({"budget.agentrun.dev/model-calls": "1", "pods": "3"}), "need a ResourceQuota of their own"),
    (quota({"budget.agentrun.dev/model-calls": "1"}, scopes=["BestEffort"]), "cannot be scoped; remove them"),
    (
        quota(
            {"budget.agentrun.dev/model-calls": "1"},
            scopeSelector={"matchExpressions": [{"scopeName": "BestEffort", "operator": "Exists"}]},
        ),
        "cannot be scoped; remove them",
    ),
]


@pytest.mark.parametrize(("wrong", "fix"), QUOTAS)
def test_wrong_budget_quota_is_refused_R22(place: Place, wrong: dict[str, Any], fix: str) -> None:
    where = f"/api/v1/namespaces/{place.namespace}/resourcequotas"
    forbidden(lambda: place.api.create(where, wrong, dryRun="All"), fix)


def test_right_quotas_are_accepted_R22(place: Place) -> None:
    where = f"/api/v1/namespaces/{place.namespace}/resourcequotas"
    place.api.create(where, quota(dict.fromkeys(BUDGET_KEYS, "5")), dryRun="All")
    place.api.create(where, quota({"pods": "3", "count/agentruns.agentrun.dev": "9"}), dryRun="All")
    place.api.create(where, quota({"pods": "3"}, scopes=["BestEffort"]), dryRun="All")


@pytest.mark.parametrize(
    ("way", "query"), [("exec", {"command": "sh"}), ("attach", {}), ("portforward", {}), ("proxy", {})]
)
def test_reaching_into_a_sandbox_needs_shell(place: Place, way: str, query: dict[str, str]) -> None:
    pods = f"/api/v1/namespaces/{place.namespace}/pods"
    eve, alice = place.person("eve", "steer"), place.person("alice", "shell")
    forbidden(lambda: eve.request("POST", f"{pods}/arun-x-w1/{way}", **query), "need verb `shell`")
    for api, pod in ((alice, "arun-x-w1"), (eve, "web-1")):
        assert missing(api, f"{pods}/{pod}/{way}", query), pod


def missing(api: Api, path: str, query: dict[str, str]) -> bool:
    """Whether the request passes admission and fails only because there is no such Pod."""
    with pytest.raises(Refused) as caught:
        api.request("POST", path, **query)
    return caught.value.code == 404 and "not found" in caught.value.message


def test_debugging_a_sandbox_needs_shell(place: Place) -> None:
    pods = f"/api/v1/namespaces/{place.namespace}/pods"
    container = {"name": "sandbox", "image": "none"}
    spec = {"containers": [container], "schedulingGates": [{"name": "agentrun.dev/never"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "arun-debugged"}, "spec": spec}
    eventually(lambda: place.api.create(pods, pod), "Pod created (its default account exists)")
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "none"}]}}
    where = f"{pods}/arun-debugged/ephemeralcontainers"
    forbidden(lambda: place.person("eve", "steer").patch(where, debug), "need verb `shell`")
    assert place.person("alice", "shell").patch(where, debug)["spec"]["ephemeralContainers"][0]["name"] == "debug"
    place.api.delete(f"{pods}/arun-debugged")


def checked(api: Api, path: str) -> bool:
    """Whether the controller manager has type-checked the policy; fails on a warning."""
    status = api.get(path).get("status", {})
    assert not status.get("typeChecking", {}).get("expressionWarnings"), status
    return "typeChecking" in status


@pytest.mark.parametrize("name", VALIDATING)
def test_expressions_fit_the_types_they_name(place: Place, name: str) -> None:
    eventually(lambda: checked(place.api, f"{ADMISSION}/validatingadmissionpolicies/{name}"), f"{name} type-checked")
