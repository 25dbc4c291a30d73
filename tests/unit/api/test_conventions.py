"""Lint: the generated CRDs keep the API conventions of design section 4."""

import re
from typing import Any

from tests.unit.api.schemas import nodes

from agentrun.api.conditions import REASONS, ConditionType
from agentrun.api.crd import custom_resource_definition
from agentrun.api.kinds import KINDS

UNITS = ("Seconds", "Bytes", "MicroUSD", "Tokens", "MicroUSDPerMTok", "Millis")
CAMEL = re.compile(r"^[A-Z][A-Za-z0-9]*$")
NAME = re.compile(r"^[a-z][A-Za-z0-9]*$")


def offenders(kind: str, holds: Any) -> list[str]:
    return [path for path, schema in nodes() if schema.get("type") == kind and not holds(path, schema)]


def test_every_list_is_typed_and_bounded() -> None:
    def holds(_: str, schema: dict[str, Any]) -> bool:
        keys = schema.get("x-kubernetes-list-map-keys", [])
        listed = schema.get("x-kubernetes-list-type")
        keyed = listed != "map" or (keys and set(keys) <= set(schema["items"].get("required", [])))
        return listed in ("atomic", "set", "map") and bool(keyed) and "maxItems" in schema

    assert offenders("array", holds) == []


def test_every_string_is_bounded() -> None:
    assert offenders("string", lambda _, schema: "maxLength" in schema or "enum" in schema) == []


def test_every_integer_has_both_bounds_below_overflow() -> None:
    def holds(_: str, schema: dict[str, Any]) -> bool:
        return schema["format"] == "int64" and -(2**53) < schema["minimum"] <= schema["maximum"] < 2**53

    assert offenders("integer", holds) == []
    assert [path for path, schema in nodes() if schema.get("type") == "number"] == []


def test_every_map_is_bounded() -> None:
    maps = [(path, schema) for path, schema in nodes() if "additionalProperties" in schema]
    assert maps
    assert [path for path, schema in maps if "maxProperties" not in schema] == []


def test_every_field_has_a_description() -> None:
    fields = [(path, schema) for path, schema in nodes() if not path.endswith(("[]", "{}"))]
    assert [path for path, schema in fields if not schema.get("description", "").endswith((".", ")"))] == []


def test_enums_are_camel_case_but_for_the_state() -> None:
    bad = [
        f"{path}={value}"
        for path, schema in nodes()
        for value in schema.get("enum", ())
        if not CAMEL.match(value) and path != "AgentRun.status.state"
    ]
    assert bad == []


def test_state_has_the_eleven_names_R5() -> None:
    states = dict(nodes())["AgentRun.status.state"]["enum"]
    assert states == [
        "created",
        "ready",
        "running",
        "waiting_model",
        "waiting_tool",
        "waiting_approval",
        "paused",
        "cancelling",
        "completed",
        "failed",
        "needs_reconciliation",
    ]


def test_field_names_are_camel_case() -> None:
    names = {path.rsplit(".", 1)[-1].rstrip("[]{}") for path, _ in nodes()}
    assert [name for name in names if not NAME.match(name)] == []
    assert [name for name in names if re.search(r"(Id|Usd|Uid|Cidr|Url)s?$", name)] == []


def test_amounts_name_their_unit() -> None:
    units = re.compile(r"(timeout|deadline|duration|ttl|memory|storage|cost|price)", re.IGNORECASE)
    bad = [
        path
        for path, schema in nodes()
        if schema.get("type") == "integer" and units.search(path.rsplit(".", 1)[-1])
        if not path.endswith((*UNITS, "SecondsAfterFinished"))
    ]
    assert bad == []


def test_only_the_class_name_has_a_default() -> None:
    assert [path for path, schema in nodes() if "default" in schema] == ["AgentDefinition.spec.className"]


def test_only_free_json_and_matchers_are_open() -> None:
    opened = [path for path, schema in nodes() if schema.get("x-kubernetes-preserve-unknown-fields")]
    assert opened == [
        "AgentDefinition.spec.template.modelParameters",
        "AgentDefinition.spec.template.tools[].inputSchema",
        "AgentDefinition.spec.template.tools[].outputSchema",
        "AgentDefinition.spec.schedules[].run.input.parameters",
        "AgentRun.spec.input.parameters",
        "ToolGrant.spec.tools[].match[].equals",
        "ToolGrant.spec.tools[].match[].in[]",
    ]


def test_schemas_are_structural() -> None:
    forbidden = {"$ref", "anyOf", "allOf", "oneOf", "title", "propertyNames", "const", "$defs"}
    assert [path for path, schema in nodes() if forbidden & set(schema)] == []


def test_every_rule_says_what_to_do() -> None:
    rules = [(path, rule) for path, schema in nodes() for rule in schema.get("x-kubernetes-validations", ())]
    assert len(rules) > 30
    assert [path for path, rule in rules if len(rule.get("message", "")) < 15] == []


def test_spec_is_required_and_status_is_a_subresource() -> None:
    for kind in KINDS:
        version = custom_resource_definition(kind)["spec"]["versions"][0]
        assert version["schema"]["openAPIV3Schema"]["required"] == ["spec"]
        assert version["subresources"] == {"status": {}}


def test_run_columns_are_those_of_the_design() -> None:
    run = next(kind for kind in KINDS if kind.kind == "AgentRun")
    assert [column.name for column in run.columns] == ["State", "Reason", "Definition", "Budget", "Waiting-On", "Age"]


def test_reasons_are_camel_case_words() -> None:
    assert set(REASONS) == set(ConditionType)
    assert [r.value for reasons in REASONS.values() for r in reasons if not CAMEL.match(r.value)] == []
