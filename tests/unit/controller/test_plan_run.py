"""The plan a run is decided by: fixed at admission, bounded by the class, worst cases never too low (R7, R15, R22)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.controller.objects import READ, agent_class, template

from agentrun.api.digests import tool_digest
from agentrun.api.naming import json_name
from agentrun.controller.plan_run import Unsupported, class_model, plan_run
from agentrun.core.plan import BudgetPlan, RunPlan, ToolPlan, VerificationPlan

Object = dict[str, Any]
LIMITS = [json_name(name) for name in BudgetPlan.__struct_fields__]
AMOUNTS = st.dictionaries(st.sampled_from(LIMITS), st.integers(0, 10**12))


def plan(made: Object | None = None, **spec: Any) -> RunPlan:
    return plan_run(made or template(), agent_class(**spec), None, workspace=False)


def model(**changes: Any) -> list[Object]:
    return [{"name": "scripted", **changes}]


def test_a_tool_is_planned_with_the_digest_that_grants_name_R15() -> None:
    (tool,) = plan().tools
    assert tool == ToolPlan("read", tool_digest(READ), "Builtin", "ReadOnly", "Repeat", builtin="Read")
    assert (tool.timeout_seconds, tool.max_output_bytes, tool.in_sandbox) == (60, 65536, True)


def test_what_a_tool_states_is_taken() -> None:
    lint = {
        "name": "lint",
        "executor": "Sandbox",
        "sideEffectClass": "Workspace",
        "retryClass": "Reconcile",
        "timeoutSeconds": 5,
        "maxOutputBytes": 7,
    }
    (tool,) = plan(template(tools=[lint])).tools
    assert (tool.executor, tool.effect, tool.retry) == ("Sandbox", "Workspace", "Reconcile")
    assert (tool.timeout_seconds, tool.max_output_bytes) == (5, 7)


@pytest.mark.parametrize("executor", ["HTTP", "MCP", "SubRun"])
def test_an_executor_of_a_later_version_is_refused_by_name(executor: str) -> None:
    with pytest.raises(Unsupported, match=f"tool read: executor {executor}"):
        plan(template(tools=[{**READ, "executor": executor}]))


@pytest.mark.parametrize("rule", ["FirstUse", "EachCall"])
def test_a_tool_that_needs_an_approval_is_refused_and_never_run_without_one(rule: str) -> None:
    with pytest.raises(Unsupported, match=f"tool read: approvalRule {rule}"):
        plan(template(tools=[{**READ, "approvalRule": rule}]))
    for none in ("None", None):
        assert plan(template(tools=[{**READ, "approvalRule": none}])).tools


def test_a_run_without_tools_needs_no_sandbox() -> None:
    assert not plan(template(tools=None)).needs_sandbox
    assert plan().needs_sandbox


def test_verification_has_a_time_whether_stated_or_not() -> None:
    assert plan().verification is None
    assert plan(template(verification={"argv": ["x"]})).verification == VerificationPlan(600)
    assert plan(template(verification={"argv": ["x"], "timeoutSeconds": 9})).verification == VerificationPlan(9)


def test_a_model_that_the_class_lacks_is_told_with_those_it_has() -> None:
    with pytest.raises(LookupError, match=r"AgentClass default has no model 'x'; it has: scripted"):
        class_model(agent_class(), "x")
    with pytest.raises(LookupError, match="it has: none"):
        class_model(agent_class(models=[]), "x")


@pytest.mark.parametrize(
    ("asked", "most", "expected"),
    [(None, None, 4096), (100, None, 100), (9000, 5000, 5000), (None, 5000, 5000), (0, 5000, 5000), ("9", 50, 50)],
)
def test_a_replys_worst_case_is_what_the_class_allows_at_most(asked: object, most: int | None, expected: int) -> None:
    parameters = {} if asked is None else {"maxOutputTokens": asked}
    bounds = {} if most is None else {"maxOutputTokens": most}
    found = plan(template(modelParameters=parameters), models=model(**bounds))
    assert found.max_output_tokens == expected


def test_a_calls_worst_case_is_a_full_context_in_and_a_full_reply_out_rounded_up_R22() -> None:
    price = {"inputMicroUSDPerMTok": 3_000_000, "outputMicroUSDPerMTok": 15_000_000}
    found = plan(models=model(price=price, contextTokens=200_000, maxOutputTokens=8192))
    assert found.reply_cost_micro_usd == 600_000 + 122_880
    odd = {"inputMicroUSDPerMTok": 1, "outputMicroUSDPerMTok": 1}
    assert plan(models=model(price=odd, contextTokens=1, maxOutputTokens=1)).reply_cost_micro_usd == 1
    assert plan(models=model()).reply_cost_micro_usd == 0


@given(asked=AMOUNTS, default=AMOUNTS, most=AMOUNTS)
def test_no_limit_is_ever_above_the_classs_and_none_that_anybody_stated_is_lost_R22(
    asked: Object, default: Object, most: Object
) -> None:
    bounds = agent_class(budget={"default": default, "max": most})
    found = plan_run(template(), bounds, asked, workspace=False)
    for name in BudgetPlan.__struct_fields__:
        key, value = json_name(name), getattr(found.budget, name)
        stated = [source[key] for source in (asked, default, most) if key in source]
        assert (value is None) == (not stated)
        if value is not None:
            assert value == min(stated[0], most.get(key, stated[0]))
