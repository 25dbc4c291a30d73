"""Taking a run in: what is missing is named in the order a person would mend it; nothing foreign is run (R7, R16)."""

from typing import Any

import pytest
from tests.unit.controller.objects import agent_class, definition, revision, run, template

from agentrun.api.conditions import AcceptedReason as Reason
from agentrun.api.digests import template_digest
from agentrun.controller.intake import Intake, Waiting, input_document, judge
from agentrun.core.plan import RunPlan

Object = dict[str, Any]
FIXER = definition()
DIGEST = template_digest(FIXER["spec"]["template"])


def pinned(to: str) -> Object:
    return run(definitionRef={"name": "fixer", "revision": to})


def taken(found: Intake | Waiting) -> Intake:
    assert isinstance(found, Intake), found
    return found


def waits(found: Intake | Waiting) -> Waiting:
    assert isinstance(found, Waiting), found
    return found


def test_a_run_whose_everything_is_there_is_taken_in_with_its_frozen_template() -> None:
    found = taken(judge(run(), FIXER, agent_class(), revision(FIXER)))
    assert (found.template, found.template_digest) == (FIXER["spec"]["template"], DIGEST)
    assert found.revision == f"fixer-{DIGEST[7:17]}"
    assert found.refusal is None
    assert [tool.name for tool in found.plan.tools] == ["read"]


@pytest.mark.parametrize("attribution", [None, {}, {"stop/Kill": {"username": "ann"}}])
def test_a_run_nobody_vouches_for_never_starts_R1(attribution: Object | None) -> None:
    found = waits(judge(run(attribution=attribution), FIXER, agent_class(), revision(FIXER)))
    assert (found.reason, found.final) == (Reason.UNATTRIBUTED, True)
    assert "agentrun-crds" in found.message


@pytest.mark.parametrize(
    ("missing", "reason", "word"),
    [
        ("definition", Reason.DEFINITION_NOT_FOUND, "fixer"),
        ("class", Reason.CLASS_NOT_FOUND, "default"),
        ("revision", Reason.PENDING, "frozen"),
    ],
)
def test_what_is_not_there_yet_is_named_and_waited_for(missing: str, reason: Reason, word: str) -> None:
    given = {"definition": FIXER, "class": agent_class(), "revision": revision(FIXER)} | {missing: None}
    found = waits(judge(run(), given["definition"], given["class"], given["revision"]))
    assert (found.reason, found.final) == (reason, False)
    assert word in found.message


def test_a_model_the_class_does_not_have_is_named_with_what_it_has() -> None:
    made = definition(modelName="other")
    found = waits(judge(run(), made, agent_class(), revision(made)))
    assert found.reason is Reason.MODEL_NOT_FOUND
    assert "'other'" in found.message
    assert "scripted" in found.message


def test_a_template_changed_since_it_was_frozen_waits_for_its_own_revision_R7() -> None:
    changed = definition(instructions="Now something else.")
    assert waits(judge(run(), changed, agent_class(), revision(FIXER))).reason is Reason.PENDING


def test_a_run_pinned_to_an_older_revision_runs_that_one_by_name_and_by_digest_R7() -> None:
    changed = definition(instructions="Now something else.")
    for to in (DIGEST, f"fixer-{DIGEST[7:17]}"):
        found = taken(judge(pinned(to), changed, agent_class(), revision(FIXER)))
        assert (found.template, found.template_digest) == (FIXER["spec"]["template"], DIGEST)


def test_a_run_pinned_to_what_is_there_now_needs_its_frozen_copy_too_R7() -> None:
    assert taken(judge(pinned(DIGEST), FIXER, agent_class(), revision(FIXER))).template_digest == DIGEST
    assert waits(judge(pinned(DIGEST), FIXER, agent_class(), None)).reason is Reason.PENDING


def test_a_revision_that_is_not_there_is_named() -> None:
    found = waits(judge(pinned("fixer-0123456789"), FIXER, agent_class(), None))
    assert found.reason is Reason.REVISION_NOT_FOUND
    assert "fixer-0123456789" in found.message


def test_a_revision_of_another_definition_is_none_of_this_one_R16() -> None:
    other = definition("other", instructions="With other grants.")
    found = waits(judge(pinned(revision(other)["metadata"]["name"]), FIXER, agent_class(), revision(other)))
    assert found.reason is Reason.REVISION_NOT_FOUND


def test_a_digest_is_only_met_by_a_template_that_has_it_R7() -> None:
    forged = revision(FIXER)
    forged["data"] = template(instructions="Something else entirely.")
    for to in (DIGEST, forged["metadata"]["name"], None):
        asked = run() if to is None else pinned(to)
        found = waits(judge(asked, FIXER, agent_class(), forged))
        assert found.reason is Reason.REVISION_NOT_FOUND
        assert forged["metadata"]["name"] in found.message
    changed = definition(instructions="Now something else.")
    assert waits(judge(pinned(DIGEST), changed, agent_class(), forged)).reason is Reason.REVISION_NOT_FOUND


def test_a_template_that_has_no_digest_is_named_and_not_tried_for_ever_C47() -> None:
    made = definition(modelParameters={"seed": 2**60})
    for asked in (run(), pinned(DIGEST)):
        found = waits(judge(asked, made, agent_class(), revision(FIXER)))
        assert found.reason is Reason.INVALID_TEMPLATE
        assert "fixer" in found.message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("forkFrom", {"runUID": "x"}),
        ("parent", {"name": "x"}),
        ("dedupeKey", "x"),
        ("startDeadlineSeconds", 5),
        ("migrateTo", "x"),
    ],
)
def test_what_this_version_cannot_do_is_refused_for_good_and_named(field: str, value: Any) -> None:
    refusal = taken(judge(run(**{field: value}), FIXER, agent_class(), revision(FIXER))).refusal
    assert refusal is not None
    assert refusal.reason is Reason.UNSUPPORTED_FEATURE
    assert f"spec.{field}" in refusal.message


def test_a_git_checkout_is_refused_for_good_with_what_to_give_instead() -> None:
    asked = run(input={"git": {"url": "https://git.test/x", "ref": "main"}})
    refusal = taken(judge(asked, FIXER, agent_class(), revision(FIXER))).refusal
    assert refusal is not None
    assert refusal.reason is Reason.GIT_INPUT_UNAVAILABLE
    assert "spec.input.files" in refusal.message


@pytest.mark.parametrize(
    ("change", "word"),
    [({"executor": "HTTP"}, "HTTP"), ({"executor": "MCP"}, "MCP"), ({"approvalRule": "EachCall"}, "EachCall")],
)
def test_a_tool_this_version_cannot_carry_out_ends_the_run_and_is_named(change: Object, word: str) -> None:
    made = definition(tools=[{**template()["tools"][0], **change}])
    found = taken(judge(run(), made, agent_class(), revision(made)))
    assert found.refusal is not None
    assert "tool read" in found.refusal.message
    assert word in found.refusal.message
    assert found.plan == RunPlan()


def test_the_input_is_one_document_of_text_parameters_and_files_by_digest_R7() -> None:
    files = [{"path": "a.py", "executable": True, "text": "x"}, {"path": "b.py", "text": "y"}]
    asked = run(input={"text": "go", "parameters": {"n": 1}, "files": files})
    assert input_document(asked, {"a.py": "sha256:1", "b.py": "sha256:2"}) == {
        "text": "go",
        "parameters": {"n": 1},
        "files": [
            {"path": "a.py", "executable": True, "digest": "sha256:1"},
            {"path": "b.py", "executable": False, "digest": "sha256:2"},
        ],
    }


def test_no_input_is_a_document_as_well() -> None:
    assert input_document(run(input=None), {}) == {"text": "", "parameters": {}, "files": []}


def test_whether_files_were_given_decides_whether_there_is_a_workspace() -> None:
    files = [{"path": "a.py", "text": "x"}]
    assert taken(judge(run(input={"files": files}), FIXER, agent_class(), revision(FIXER))).plan.workspace
    assert not taken(judge(run(), FIXER, agent_class(), revision(FIXER))).plan.workspace
