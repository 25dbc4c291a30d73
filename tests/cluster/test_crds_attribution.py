"""Who did what: stamped by the API server, whatever clients write (design section 4, docs/decisions/0003)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.cluster.crds_api import Api, Refused, eventually
from tests.cluster.crds_setup import ADMISSION, RUN_VERBS, Place, admin, named, object_path, objects, place
from tests.unit.api.examples import AGENT_DEFINITION, AGENT_RUN, TOOL_APPROVAL, TOOL_GRANT, edited

pytestmark = pytest.mark.cluster
__all__ = ["admin", "place"]
FORGED = {"run": {"username": "mallory", "groups": ["system:masters"]}, "stop/Kill": {"username": "mallory"}}
PAUSED = {"spec": {"operatingMode": "Paused"}}
ACTIVE = {"spec": {"operatingMode": "Active"}}


def editor(place: Place, name: str) -> Api:
    """An editor with every verb on runs and what the examples of definitions and grants need."""
    secrets = [f"secret-{index}" for index in range(4)]
    return place.person(name, *RUN_VERBS, "grant", "use", *secrets)


def names(manifest: dict[str, Any]) -> dict[str, str]:
    """Attribution as act -> user name."""
    return {act: who["username"] for act, who in manifest["spec"]["attribution"].items()}


def new_run(place: Place, name: str, by: str = "alice") -> str:
    """Path of a run that `by` created."""
    editor(place, by).create(place.runs(), named(AGENT_RUN, name))
    return f"{place.runs()}/{name}"


def message(text: str, by: str) -> dict[str, str]:
    """A steering entry."""
    return {"id": by, "message": text, "deliverAt": "NextModelCall"}


def test_forged_stamp_is_discarded_at_creation(place: Place) -> None:
    run = edited(named(AGENT_RUN, "forged"), "spec.attribution", FORGED)
    made = editor(place, "alice").create(place.runs(), run)
    assert names(made) == {"run": "alice"}
    assert "editors" in made["spec"]["attribution"]["run"]["groups"]


@pytest.mark.parametrize("how", ["patch", "apply", "replace"])
def test_forged_stamp_is_discarded_at_a_change(place: Place, how: str) -> None:
    path = new_run(place, f"forged-{how}")
    bob = editor(place, "bob")
    before = bob.get(path)
    forged = edited(before, "spec.attribution", FORGED)
    match how:
        case "patch":
            after = bob.patch(path, {"spec": {"attribution": FORGED}})
        case "apply":
            identity = {key: before[key] for key in ("apiVersion", "kind")}
            after = bob.apply(path, identity | {"spec": {"attribution": FORGED}}, force="true")
        case _:
            after = bob.replace(path, forged)
    assert after["spec"]["attribution"] == before["spec"]["attribution"]


def test_stamp_cannot_be_removed(place: Place) -> None:
    path = new_run(place, "stripped")
    assert names(editor(place, "bob").patch(path, {"spec": {"attribution": None}})) == {"run": "alice"}


def test_pause_resume_pause_names_each_person_R9(place: Place) -> None:
    path = new_run(place, "taken-turns")
    for person, change in (("bob", PAUSED), ("carol", ACTIVE), ("dave", PAUSED)):
        assert names(editor(place, person).patch(path, change)) == {"run": "alice", "operatingMode": person}
    assert names(editor(place, "erin").patch(path, PAUSED))["operatingMode"] == "dave"


def test_cancel_and_kill_are_each_named_R9(place: Place) -> None:
    path = new_run(place, "stopped-twice")
    editor(place, "bob").patch(path, {"spec": {"stop": {"mode": "Cancel"}}})
    editor(place, "carol").patch(path, {"spec": {"stop": {"mode": "Kill"}}})
    after = editor(place, "dave").patch(path, PAUSED)
    wanted = {"run": "alice", "stop/Cancel": "bob", "stop/Kill": "carol", "operatingMode": "dave"}
    assert names(after) == wanted


def test_every_entry_of_a_list_is_named(place: Place) -> None:
    path = new_run(place, "steered")
    editor(place, "bob").patch(path, {"spec": {"steering": [message("left", "bob")]}})
    both = [message("left", "bob"), message("right", "carol")]
    editor(place, "carol").patch(path, {"spec": {"steering": both}})
    editor(place, "dave").patch(path, {"spec": {"topUps": [{"id": "more", "add": {"modelCalls": 1}}]}})
    resolution = {"callID": "t1c0", "outcome": "Committed"}
    after = editor(place, "erin").patch(path, {"spec": {"resolutions": [resolution], "migrateTo": "fixer-0123456789"}})
    assert names(after) == {
        "run": "alice",
        "steering/bob": "bob",
        "steering/carol": "carol",
        "topUps/more": "dave",
        "resolutions/t1c0": "erin",
        "migrateTo": "erin",
    }


def test_acts_at_creation_are_named(place: Place) -> None:
    run = edited(named(AGENT_RUN, "all-at-once"), "spec.steering", [message("go", "first")])
    run = edited(edited(run, "spec.operatingMode", "Paused"), "spec.stop", {"mode": "Kill"})
    made = editor(place, "alice").create(place.runs(), run)
    assert set(names(made)) == {"run", "operatingMode", "stop/Kill", "steering/first"}
    assert set(names(made).values()) == {"alice"}


def test_only_standing_acts_carry_groups_at_most_256(place: Place) -> None:
    groups = [f"team-{index:03d}" for index in range(300)]
    alice = place.api.as_user("alice", "editors", "verb-pause", "x" * 300, *groups)
    run = edited(named(AGENT_RUN, "many-groups"), "spec.operatingMode", "Paused")
    stamp = alice.create(place.runs(), run)["spec"]["attribution"]
    assert "groups" not in stamp["operatingMode"]
    assert stamp["run"]["groups"][:3] == ["system:authenticated", "editors", "verb-pause"]
    assert len(stamp["run"]["groups"]) == 255  # 256 less the one that is too long to keep


def test_change_of_labels_is_no_act(place: Place) -> None:
    path = new_run(place, "labelled")
    after = editor(place, "bob").patch(path, {"metadata": {"labels": {"team": "b"}}})
    assert names(after) == {"run": "alice"}


def test_second_pipelines_apply_keeps_the_author_and_no_manager_owns_the_stamp_C35(place: Place) -> None:
    path = f"{place.runs()}/piped"
    first = editor(place, "alice").apply(path, named(AGENT_RUN, "piped"))
    second = editor(place, "bob").apply(path, named(AGENT_RUN, "piped"))
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert names(second) == {"run": "alice"}
    owned = [entry["fieldsV1"].get("f:spec", {}) for entry in second["metadata"]["managedFields"]]
    assert owned
    assert not any("f:attribution" in fields for fields in owned)


def test_dry_run_shows_the_true_name(place: Place) -> None:
    run = edited(named(AGENT_RUN, "probe"), "spec.attribution", FORGED)
    assert names(editor(place, "alice").create(place.runs(), run, dryRun="All")) == {"run": "alice"}


def test_template_rollout_and_schedules_of_a_definition_are_named_R13(place: Place) -> None:
    path = f"{place.of('agentdefinitions')}/authored"
    made = editor(place, "alice").create(place.of("agentdefinitions"), named(AGENT_DEFINITION, "authored"))
    assert set(names(made)) == {"template", "rollout", "schedules/nightly"}
    editor(place, "bob").patch(path, {"spec": {"template": {"instructions": "Other."}}})
    editor(place, "carol").patch(path, {"spec": {"rollout": {"revokedRevisions": []}}})
    run = {"id": "noon", "cron": "0 12 * * *", "run": {}}
    two = [*AGENT_DEFINITION["spec"]["schedules"], run]
    after = editor(place, "dave").patch(path, {"spec": {"schedules": two}})
    wanted = {"template": "bob", "rollout": "carol", "schedules/nightly": "alice", "schedules/noon": "dave"}
    assert names(after) == wanted
    stamp = after["spec"]["attribution"]
    assert {act for act, who in stamp.items() if "groups" in who} == {"template", "schedules/nightly", "schedules/noon"}
    gone = editor(place, "erin").patch(path, {"spec": {"rollout": None, "schedules": [run]}})
    assert names(gone) == {"template": "bob", "rollout": "erin", "schedules/noon": "dave"}


def test_choice_of_class_belongs_to_the_template(place: Place) -> None:
    path = f"{place.of('agentdefinitions')}/reclassed"
    editor(place, "alice").create(place.of("agentdefinitions"), named(AGENT_DEFINITION, "reclassed"))
    after = place.api.as_user("bob", "system:masters").patch(path, {"spec": {"className": "other"}})
    assert names(after)["template"] == "bob"


def test_grant_is_named_after_who_changed_it_last(place: Place) -> None:
    grant = edited(named(TOOL_GRANT, "given"), "spec.credentials.0.name", "secret-0")
    path = f"{place.of('toolgrants')}/given"
    assert names(editor(place, "alice").create(place.of("toolgrants"), grant)) == {"grant": "alice"}
    labelled = editor(place, "bob").patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert names(labelled) == {"grant": "alice"}
    changed = editor(place, "bob").patch(path, {"spec": {"limits": {"mutations": 6}}})
    assert names(changed) == {"grant": "bob"}
    assert "groups" in changed["spec"]["attribution"]["grant"]


def test_decision_is_named_R10_C22(place: Place) -> None:
    decision = edited(named(TOOL_APPROVAL, "decided"), "spec.attribution", {"decision": {"username": "boss"}})
    assert names(editor(place, "alice").create(place.of("toolapprovals"), decision)) == {"decision": "alice"}


STAMPED = [("agentruns", AGENT_RUN), ("agentdefinitions", AGENT_DEFINITION), ("toolgrants", TOOL_GRANT)]
STAMPED.append(("toolapprovals", TOOL_APPROVAL))


@dataclass(frozen=True)
class Unstamped:
    """A kind whose stamp is switched off."""

    api: Api
    collection: str
    example: dict[str, Any]


def refusal(api: Api, collection: str, manifest: dict[str, Any]) -> str:
    """Why a dry-run create is refused, or nothing."""
    try:
        api.create(collection, manifest, dryRun="All")
    except Refused as refused:
        return refused.message
    return ""


@pytest.fixture(params=STAMPED, ids=lambda stamped: stamped[0])
def unstamped(request: pytest.FixtureRequest, admin: Api, place: Place) -> Iterator[Unstamped]:
    """The stamp of one kind switched off (its binding deleted), put back afterwards."""
    plural, example = request.param
    binding = f"{ADMISSION}/mutatingadmissionpolicybindings/agentrun-stamp-{plural}"
    kept = next(item for item in objects() if object_path(item) == binding)
    labels = admin.get(binding)["metadata"]["labels"]
    root = admin.as_user("root", "system:masters")
    admin.delete(binding)
    try:
        eventually(lambda: refusal(root, place.of(plural), named(example, "probe")) != "", "stamp gone")
        yield Unstamped(root, place.of(plural), example)
    finally:
        admin.apply(binding, edited(kept, "metadata.labels", labels), manager="agentrun-tests", force="true")
        eventually(lambda: refusal(root, place.of(plural), named(example, "probe")) == "", "stamp back in force")


def test_without_the_stamp_forged_and_missing_stamps_are_refused(unstamped: Unstamped) -> None:
    wrong = "or its binding is missing (install the chart agentrun-crds again)"
    missing = named(unstamped.example, "probe")
    assert wrong in refusal(unstamped.api, unstamped.collection, missing)
    key = {"agentdefinitions": "template", "toolgrants": "grant", "toolapprovals": "decision"}
    act = key.get(unstamped.collection.rsplit("/", 1)[-1], "run")
    forged = edited(missing, "spec.attribution", {act: {"username": "mallory", "uid": "", "groups": ["all"]}})
    assert wrong in refusal(unstamped.api, unstamped.collection, forged)


@pytest.mark.parametrize("unstamped", STAMPED[:1], indirect=True)
def test_without_the_stamp_nobody_acts_in_anothers_name(unstamped: Unstamped) -> None:
    true = {"run": {"username": "root", "uid": "", "groups": ["system:authenticated", "system:masters"]}}
    run = edited(named(AGENT_RUN, "honest"), "spec.attribution", true)
    unstamped.api.create(unstamped.collection, run)
    forged = {"operatingMode": "Paused", "attribution": {"operatingMode": {"username": "alice", "uid": ""}}}
    with pytest.raises(Refused, match="is not what the API server stamps"):
        unstamped.api.patch(f"{unstamped.collection}/honest", {"spec": forged})


def test_run_made_without_policies_stays_unattributed_when_touched_C22(admin: Api, place: Place) -> None:
    bindings = [
        item
        for item in objects()
        if item["metadata"]["name"] in ("agentrun-stamp-agentruns", "agentrun-attribution-agentruns")
        and item["kind"].endswith("Binding")
    ]
    labels = admin.get(object_path(bindings[0]))["metadata"]["labels"]
    forged = edited(named(AGENT_RUN, "probe"), "spec.attribution", {"run": {"username": "mallory"}})
    for binding in bindings:
        admin.delete(object_path(binding))
    try:
        eventually(lambda: names(admin.create(place.runs(), forged, dryRun="All")) == {"run": "mallory"}, "all off")
        admin.create(place.runs(), named(AGENT_RUN, "orphan"))
    finally:
        for binding in bindings:
            whole = edited(binding, "metadata.labels", labels)
            admin.apply(object_path(binding), whole, manager="agentrun-tests", force="true")
    alice = editor(place, "alice")
    eventually(lambda: names(alice.create(place.runs(), forged, dryRun="All")) == {"run": "alice"}, "stamp back")
    touched = alice.patch(f"{place.runs()}/orphan", PAUSED)
    assert names(touched) == {"operatingMode": "alice"}
