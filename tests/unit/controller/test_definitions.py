"""Freezing templates: immutable, named by digest, owned by their definition, said in its status (R7, R15)."""

from typing import Any

from tests.unit.controller.apiserver import ApiServer
from tests.unit.controller.bench import Bench
from tests.unit.controller.objects import READ, definition, revision

from agentrun.api.agentdefinition import AgentDefinitionStatus
from agentrun.api.digests import template_digest, tool_digest
from agentrun.controller.definitions import build_revision, definition_status, ensure_revision, reconcile_definition
from agentrun.kube import KubeClient

Object = dict[str, Any]
PATH = "/apis/agentrun.dev/v1alpha1/namespaces/team/agentdefinitions/fixer"
NOW = "2026-01-01T00:00:00Z"


def accepted(status: Object) -> tuple[str, str]:
    (found,) = [one for one in status["conditions"] if one["type"] == "Accepted"]
    return found["status"], found["reason"]


def test_a_revision_holds_the_template_as_it_is_and_goes_with_its_definition() -> None:
    fixer = definition()
    digest = template_digest(fixer["spec"]["template"])
    found = revision(fixer)
    assert found["metadata"]["name"] == f"fixer-{digest[7:17]}"
    assert found["data"] == fixer["spec"]["template"]
    assert found["metadata"]["annotations"] == {"agentrun.dev/template-digest": digest}
    assert found["metadata"]["labels"]["agentrun.dev/definition"] == "fixer"
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == ["uid-of-fixer"]


def test_another_template_is_another_revision_and_the_old_one_stays() -> None:
    names = {revision(definition(instructions=text))["metadata"]["name"] for text in ("a", "b", "a")}
    assert len(names) == 2


async def test_a_revision_is_made_once(api: ApiServer, kube: KubeClient) -> None:
    fixer = definition()
    digests = {await ensure_revision(kube, fixer) for _ in range(3)}
    assert digests == {template_digest(fixer["spec"]["template"])}
    (found,) = api.named("controllerrevisions")
    assert found["data"] == build_revision(fixer, digests.pop())["data"]


async def test_the_status_names_the_revision_and_the_digests_that_grants_name_R15(
    api: ApiServer, kube: KubeClient
) -> None:
    fixer = api.put(PATH, definition())
    await reconcile_definition(kube, fixer, class_found=True)
    status = api.objects[PATH]["status"]
    AgentDefinitionStatus.model_validate(status)
    assert status["latestRevision"]["digest"] == template_digest(fixer["spec"]["template"])
    assert status["tools"] == [{"name": "read", "digest": tool_digest(READ)}]
    assert accepted(status) == ("True", "Accepted")


async def test_a_definition_that_has_not_changed_is_not_written_again(api: ApiServer, kube: KubeClient) -> None:
    api.put(PATH, definition())
    for _ in range(3):
        await reconcile_definition(kube, api.objects[PATH], class_found=True)
    assert len(api.of("PATCH")) == 1


async def test_a_class_that_is_missing_is_named_until_it_is_there(api: ApiServer, kube: KubeClient) -> None:
    api.put(PATH, definition())
    await reconcile_definition(kube, api.objects[PATH], class_found=False)
    assert accepted(api.objects[PATH]["status"]) == ("False", "ClassNotFound")
    await reconcile_definition(kube, api.objects[PATH], class_found=True)
    assert accepted(api.objects[PATH]["status"]) == ("True", "Accepted")


async def test_a_template_that_cannot_be_frozen_is_said_and_not_tried_for_ever_C47(
    api: ApiServer, kube: KubeClient
) -> None:
    api.put(PATH, definition(modelParameters={"seed": 2**60}))
    await reconcile_definition(kube, api.objects[PATH], class_found=True)
    status = api.objects[PATH]["status"]
    AgentDefinitionStatus.model_validate(status)
    assert accepted(status) == ("False", "InvalidTemplate")
    assert "latestRevision" not in status
    assert not api.named("controllerrevisions")
    api.objects[PATH]["spec"]["template"].pop("modelParameters")
    await reconcile_definition(kube, api.objects[PATH], class_found=True)
    assert accepted(api.objects[PATH]["status"]) == ("True", "Accepted")


def test_times_move_only_with_the_status_of_a_condition() -> None:
    fixer = definition()
    fixer["status"] = definition_status(fixer, "sha256:" + "a" * 64, True, NOW)
    later = definition_status(fixer, "sha256:" + "b" * 64, True, "2026-01-02T00:00:00Z")
    assert {one["lastTransitionTime"] for one in later["conditions"]} == {NOW}


async def test_a_run_of_such_a_template_waits_and_says_why_until_it_is_mended_C47(one: Bench) -> None:
    fixer = one.api.objects[PATH]
    fixer["spec"]["template"]["modelParameters"] = {"seed": 2**60}
    await one.turns()
    assert one.conditions()["Accepted"] == ("False", "InvalidTemplate")
    fixer["spec"]["template"].pop("modelParameters")
    await one.turns()
    assert one.conditions()["Accepted"] == ("True", "Accepted")
