"""The operator refuses an older CRD and names what it lacks (C67)."""

import copy
from typing import Any

from agentrun.api.crd import custom_resource_definition
from agentrun.api.installed import all_missing, missing_fields
from agentrun.api.kinds import BY_KIND, KINDS

RUN = BY_KIND["AgentRun"]


def older() -> tuple[dict[str, Any], dict[str, Any]]:
    """A copy of the CRD of AgentRun and its schema, to be made older."""
    crd = copy.deepcopy(custom_resource_definition(RUN))
    return crd, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def test_own_crds_are_complete_C67() -> None:
    assert all_missing({kind.crd_name: custom_resource_definition(kind) for kind in KINDS}) == {}


def test_missing_limiting_field_is_named_C67() -> None:
    crd, properties = older()
    del properties["spec"]["properties"]["budget"]["properties"]["mutations"]
    assert missing_fields(RUN, crd) == ("spec.budget.mutations",)


def test_missing_item_field_enum_value_and_rule_are_named_C67() -> None:
    crd, properties = older()
    spec = properties["spec"]["properties"]
    del spec["steering"]["items"]["properties"]["deliverAt"]
    spec["stop"]["properties"]["mode"]["enum"].remove("Kill")
    removed = spec["stop"]["x-kubernetes-validations"].pop(0)
    assert missing_fields(RUN, crd) == (
        f"spec.stop (rule: {removed['message']})",
        "spec.stop.mode=Kill",
        "spec.steering[].deliverAt",
    )


def test_crd_without_status_subresource_is_named_C67() -> None:
    crd, _ = older()
    del crd["spec"]["versions"][0]["subresources"]["status"]
    assert missing_fields(RUN, crd) == ("subresource status",)


def test_absent_crd_or_version_is_named_C67() -> None:
    crd, _ = older()
    crd["spec"]["versions"][0]["name"] = "v1alpha0"
    assert missing_fields(RUN, crd) == ("CustomResourceDefinition agentruns.agentrun.dev version v1alpha1",)
    assert all_missing({})["agentruns.agentrun.dev"] == ("CustomResourceDefinition agentruns.agentrun.dev",)


def test_newer_crd_is_fine_C67() -> None:
    crd, properties = older()
    properties["spec"]["properties"]["tomorrow"] = {"type": "string", "maxLength": 1}
    assert missing_fields(RUN, crd) == ()
