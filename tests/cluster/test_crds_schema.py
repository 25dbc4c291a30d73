"""Schemas and CEL rules of the five kinds on the real API server."""

import itertools
from typing import Any

import pytest
from tests.cluster.crds_api import APPLY, Api, Refused
from tests.cluster.crds_setup import Place, admin, named, object_path, place
from tests.cluster.crds_wrong import WIDE_4K, WRONG
from tests.unit.api.examples import (
    AGENT_DEFINITION,
    AGENT_RUN,
    ALL,
    DIGEST,
    TOOL_APPROVAL,
    edited,
)

from agentrun.api.agentrun import IMMUTABLE_FIELDS
from agentrun.api.crd import custom_resource_definition
from agentrun.api.kinds import BY_KIND, KINDS, Kind

pytestmark = pytest.mark.cluster
__all__ = ["admin", "place"]
_numbers = itertools.count(1)
STOP = {"mode": "Cancel", "message": "enough"}


def fresh(place: Place, changes: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
    """A new AgentRun: its path and the object."""
    run = named(AGENT_RUN, f"run-{next(_numbers)}")
    for path, value in (changes or {}).items():
        run = edited(run, path, value)
    made = place.api.create(place.runs(), run)
    return f"{place.runs()}/{made['metadata']['name']}", made


def refusal(api: Api, path: str, patch: dict[str, Any]) -> str:
    """The message with which a merge patch is refused as invalid."""
    with pytest.raises(Refused) as caught:
        api.patch(path, patch)
    assert caught.value.code == 422, caught.value
    return caught.value.message


@pytest.mark.parametrize("kind", sorted(ALL))
def test_full_example_is_accepted_and_kept_whole(place: Place, kind: str) -> None:
    made = place.api.create(place.of(BY_KIND[kind].plural), named(ALL[kind], "whole"), dryRun="All")
    made["spec"].pop("attribution", None)
    assert made["spec"] == ALL[kind]["spec"]


@pytest.mark.parametrize(("manifest", "path", "value", "message"), WRONG)
def test_wrong_input_is_refused_with_field_and_fix(
    place: Place, manifest: dict[str, Any], path: str, value: Any, message: str
) -> None:
    wrong = edited(manifest, path, value)
    with pytest.raises(Refused) as caught:
        place.api.create(place.of(BY_KIND[manifest["kind"]].plural), wrong, dryRun="All")
    assert message in caught.value.message
    assert caught.value.code == 422


CHANGED: dict[str, Any] = {
    "input": {"text": "other"},
    "budget": {"modelCalls": 21},
    "priority": 6,
    "dedupeKey": "other",
    "startDeadlineSeconds": 601,
    "forkFrom": {"name": "other", "uid": "u", "at": 3},
    "ttlSecondsAfterFinished": 1,
    "rerunPolicy": "Always",
    "parent": {"name": "p2", "uid": "u2", "callID": "t1c1"},
    "onBehalfOf": {"username": "other"},
}
FIRST: dict[str, Any] = {
    "forkFrom": {"name": "source", "uid": "u", "at": 2},
    "parent": {"name": "p", "uid": "u", "callID": "t1c0"},
    "onBehalfOf": {"username": "root"},
}


@pytest.mark.parametrize("field", IMMUTABLE_FIELDS)
def test_field_neither_changes_nor_goes_nor_comes(place: Place, field: str) -> None:
    operator = Place(place.operator(), place.namespace)
    path, _ = fresh(operator, {f"spec.{field}": FIRST[field]} if field in FIRST else None)
    fix = f"{field} is immutable: delete the run and create another one"
    assert fix in refusal(operator.api, path, {"spec": {field: CHANGED[field]}})
    assert fix in refusal(operator.api, path, {"spec": {field: None}})
    absent, _ = fresh(operator, {f"spec.{field}": None} if field in AGENT_RUN["spec"] else None)
    assert fix in refusal(operator.api, absent, {"spec": {field: CHANGED[field]}})


def test_definition_of_a_run_is_immutable_R7(place: Place) -> None:
    path, _ = fresh(place)
    assert "use migrateTo" in refusal(place.api, path, {"spec": {"definitionRef": {"name": "other"}}})
    assert "use migrateTo" in refusal(place.api, path, {"spec": {"definitionRef": {"revision": DIGEST}}})


def test_free_json_of_the_input_is_immutable(place: Place) -> None:
    path, _ = fresh(place)
    changed = {"spec": {"input": {"parameters": {"depth": 2}}}}
    assert "input is immutable" in refusal(place.api, path, changed)
    nested = {"spec": {"input": {"parameters": {"more": {"deep": [1]}}}}}
    assert "input is immutable" in refusal(place.api, path, nested)


@pytest.mark.parametrize("kind", sorted(ALL))
def test_spec_cannot_be_removed(place: Place, kind: str) -> None:
    collection = place.of(BY_KIND[kind].plural)
    place.api.create(collection, named(ALL[kind], "keeps-spec"))
    try:
        assert "spec: Required value" in refusal(place.api, f"{collection}/keeps-spec", {"spec": None})
    finally:
        place.api.delete(f"{collection}/keeps-spec")


def test_stop_goes_one_way_R9(place: Place) -> None:
    path, _ = fresh(place)
    place.api.patch(path, {"spec": {"stop": STOP}})
    assert "cannot change: restore it" in refusal(place.api, path, {"spec": {"stop": {"message": "other"}}})
    assert "cannot change: restore it" in refusal(place.api, path, {"spec": {"stop": {"message": None}}})
    assert "stop cannot be removed" in refusal(place.api, path, {"spec": {"stop": None}})
    place.api.patch(path, {"spec": {"stop": {"mode": "Kill", "message": "now"}}})
    assert "Kill cannot become Cancel" in refusal(place.api, path, {"spec": {"stop": {"mode": "Cancel"}}})


def test_pause_can_be_undone_but_not_removed_R9(place: Place) -> None:
    path, _ = fresh(place)
    for mode in ("Paused", "Active", "Paused"):
        assert place.api.patch(path, {"spec": {"operatingMode": mode}})["spec"]["operatingMode"] == mode
    assert "set it to Active to resume" in refusal(place.api, path, {"spec": {"operatingMode": None}})


def test_migration_target_may_move_but_not_go(place: Place) -> None:
    path, _ = fresh(place)
    place.api.patch(path, {"spec": {"migrateTo": "fixer-0123456789"}})
    place.api.patch(path, {"spec": {"migrateTo": DIGEST}})
    assert "migrateTo cannot be removed" in refusal(place.api, path, {"spec": {"migrateTo": None}})


APPENDED = [
    (
        "steering",
        {"id": "a", "message": "first", "deliverAt": "NextModelCall"},
        {"id": "b", "message": "second", "deliverAt": "AfterCurrentWork"},
        {"message": "rewritten"},
    ),
    (
        "topUps",
        {"id": "a", "add": {"modelCalls": 1}},
        {"id": "b", "add": {"modelCalls": 2}},
        {"add": {"modelCalls": 9}},
    ),
    (
        "resolutions",
        {"callID": "t1c0", "outcome": "Committed", "evidence": "seen"},
        {"callID": "t2c0", "outcome": "NotCommitted"},
        {"outcome": "Compensated"},
    ),
]


@pytest.mark.parametrize(("field", "first", "second", "change"), APPENDED)
def test_list_is_append_only(
    place: Place, field: str, first: dict[str, Any], second: dict[str, Any], change: dict[str, Any]
) -> None:
    path, _ = fresh(place)
    place.api.patch(path, {"spec": {field: [first]}})
    assert len(place.api.patch(path, {"spec": {field: [first, second]}})["spec"][field]) == 2
    assert "is append-only" in refusal(place.api, path, {"spec": {field: [first | change, second]}})
    assert "put the removed entries back" in refusal(place.api, path, {"spec": {field: [second]}})
    assert "put the removed entries back" in refusal(place.api, path, {"spec": {field: []}})
    assert "put the removed entries back" in refusal(place.api, path, {"spec": {field: None}})


def test_two_people_apply_their_own_steering(place: Place) -> None:
    path, made = fresh(place)
    for manager in ("one", "two"):
        entry = {"id": manager, "message": "go on", "deliverAt": "NextModelCall"}
        mine = {key: made[key] for key in ("apiVersion", "kind")} | {"spec": {"steering": [entry]}}
        run = place.api.apply(path, mine, manager=manager)
    assert [entry["id"] for entry in run["spec"]["steering"]] == ["one", "two"]


def test_decision_is_immutable_R10(place: Place) -> None:
    path = f"{place.of('toolapprovals')}/decision-1"
    place.api.create(place.of("toolapprovals"), TOOL_APPROVAL)
    for change in ({"decision": "Denied"}, {"message": None}, {"run": {"uid": "other"}}, {"requestID": "r-2"}):
        assert "a decision is immutable" in refusal(place.api, path, {"spec": change})


def test_class_name_is_filled_in_before_admission(place: Place) -> None:
    made = place.api.create(
        place.of("agentdefinitions"), edited(AGENT_DEFINITION, "spec.className", None), dryRun="All"
    )
    assert made["spec"]["className"] == "default"


def test_template_comes_back_byte_for_byte_in_meaning_R7(place: Place) -> None:
    made = place.api.create(place.of("agentdefinitions"), AGENT_DEFINITION, dryRun="All")
    assert made["spec"]["template"] == AGENT_DEFINITION["spec"]["template"]


def status_of(epoch: int, fence: int, seq: int) -> dict[str, Any]:
    """A status with a head."""
    return {"state": "running", "head": {"epoch": epoch, "fence": fence, "seq": seq, "hash": "ab" * 32}}


def test_stale_status_writer_is_refused_R11_C3(place: Place) -> None:
    path, _ = fresh(place)
    operator = place.operator()
    operator.patch(f"{path}/status", {"status": status_of(1, 2, 10)})
    operator.patch(f"{path}/status", {"status": status_of(1, 2, 10)})
    operator.patch(f"{path}/status", {"status": status_of(1, 3, 11)})
    for stale in ((1, 2, 12), (1, 3, 10), (0, 9, 99)):
        assert "stale status writer" in refusal(operator, f"{path}/status", {"status": status_of(*stale)})
    operator.patch(f"{path}/status", {"status": status_of(2, 1, 1)})
    assert "status.head cannot be removed" in refusal(operator, f"{path}/status", {"status": {"head": None}})
    assert "status.head cannot be removed" in refusal(operator, f"{path}/status", {"status": None})
    place.api.patch(path, {"spec": {"stop": STOP}})


def test_text_in_status_is_bounded_C36(place: Place) -> None:
    path, _ = fresh(place)
    approval = {"requestID": "r", "callID": "t1c0", "requestDigest": DIGEST, "tool": "run", "arguments": WIDE_4K}
    approval["expiresAt"] = "2030-01-01T00:00:00Z"
    for status in ({"result": {"summary": WIDE_4K}}, {"pendingApprovals": [approval]}):
        assert "at most 4096 bytes of UTF-8" in refusal(place.operator(), f"{path}/status", {"status": status})


def test_columns_show_state_and_reason(place: Place) -> None:
    path, _ = fresh(place)
    reason = {
        "state": "waiting_tool",
        "reason": "ToolRunning",
        "waitingOn": "tool run",
        "budgetSummary": "5% modelCalls",
    }
    place.operator().patch(f"{path}/status", {"status": reason})
    accept = [*place.api.headers, ("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")]
    table = place.api.http.get(path, headers=accept).json()
    names = [column["name"] for column in table["columnDefinitions"]]
    row = dict(zip(names, table["rows"][0]["cells"], strict=True))
    assert names == ["Name", "State", "Reason", "Definition", "Budget", "Waiting-On", "Age"]
    assert (row["State"], row["Definition"], row["Waiting-On"]) == ("waiting_tool", "fixer", "tool run")


def test_repeated_apply_changes_nothing_C35(place: Place) -> None:
    for kind in KINDS:
        if kind.namespaced:
            path = f"{place.of(kind.plural)}/applied-twice"
            wanted = named(ALL[kind.kind], "applied-twice")
            first = place.api.apply(path, wanted)
            second = place.api.apply(path, wanted)
            assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"], kind.kind


def test_largest_legal_run_still_accepts_a_stop(place: Place) -> None:
    run = largest_run()
    path = f"{place.runs()}/largest"
    groups = tuple(f"{index:0256d}" for index in range(250))
    heavy = place.api.as_user("u" * 512, "system:masters", *groups)
    heavy.create(place.runs(), run)
    place.operator().patch(f"{path}/status", {"status": {"message": "x" * 1024, "result": {"summary": "x" * 4096}}})
    entries = [{"id": f"s{i:061d}", "message": "m" * 4096, "deliverAt": "NextModelCall"} for i in range(32)]
    heavy.patch(path, {"spec": {"steering": entries}})
    resolutions = [{"callID": f"t{i + 1}c0", "outcome": "Committed", "evidence": "e" * 4096} for i in range(32)]
    heavy.patch(path, {"spec": {"resolutions": resolutions}})
    heavy.patch(path, {"spec": {"topUps": [{"id": f"u{i:061d}", "add": {"modelCalls": 1}} for i in range(16)]}})
    stopped = heavy.patch(path, {"spec": {"stop": {"mode": "Cancel", "message": "s" * 1024}}})
    assert stopped["spec"]["stop"]["mode"] == "Cancel"
    assert heavy.patch(path, {"spec": {"stop": {"mode": "Kill"}}})["spec"]["stop"]["mode"] == "Kill"


def largest_run() -> dict[str, Any]:
    """An AgentRun as large as its schema allows, with three-byte characters where bytes are not counted."""
    wide = "\u4e2d"
    files = [{"path": f"{i:03d}" + wide * 252, "text": "x" * 2048} for i in range(64)]
    spec = {
        "definitionRef": {"name": "fixer"},
        "input": {"text": "t" * 65_536, "files": files, "parameters": {"p": "v" * 65_000}},
        "dedupeKey": wide * 253,
        "operatingMode": "Paused",
        "migrateTo": DIGEST,
    }
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "a" * 200_000}
    return {
        "apiVersion": AGENT_RUN["apiVersion"],
        "kind": "AgentRun",
        "metadata": {"name": "largest", "annotations": annotations},
        "spec": spec,
    }


def test_apply_with_a_forged_manager_is_no_way_round(place: Place) -> None:
    path, made = fresh(place, {"spec.stop": STOP})
    body = {"apiVersion": made["apiVersion"], "kind": "AgentRun", "spec": {"stop": {"mode": "Cancel", "message": "x"}}}
    with pytest.raises(Refused) as caught:
        place.api.request("PATCH", path, body, APPLY, fieldManager="agentrun-operator", force="true")
    assert "cannot change: restore it" in caught.value.message


def repeated(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with every rule stated twice in one expression, so that each costs double."""
    for rule in schema.get("x-kubernetes-validations", []):
        rule["rule"] = f"({rule['rule']}) && ({rule['rule']})"
    for child in schema.get("properties", {}).values():
        repeated(child)
    for key in ("items", "additionalProperties"):
        if key in schema:
            repeated(schema[key])
    return schema


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_rules_cost_less_than_half_of_what_the_api_server_allows(place: Place, kind: Kind) -> None:
    crd = custom_resource_definition(kind)
    repeated(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    place.api.apply(object_path(crd), crd, manager="cost", force="true", dryRun="All")
