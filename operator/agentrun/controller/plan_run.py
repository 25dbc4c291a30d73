"""A RunPlan from template, class and run: what the reducer decides by, fixed at admission. Pure."""

from typing import Any

from agentrun.api.digests import tool_digest
from agentrun.api.naming import json_name
from agentrun.core.plan import BudgetPlan, RunPlan, ToolPlan, VerificationPlan
from agentrun.kube.reading import member, members

Object = dict[str, Any]
DEFAULT_TOOL_SECONDS = 60
DEFAULT_OUTPUT_BYTES = 65536
DEFAULT_VERIFICATION_SECONDS = 600
DEFAULT_REPLY_TOKENS = 4096
MTOK = 1_000_000
UNSUPPORTED_EXECUTORS = ("HTTP", "MCP", "SubRun")


class Unsupported(Exception):
    """A feature of the schema that this version refuses, with what to do instead."""


def plan_run(template: Object, agent_class: Object, budget: Object | None, *, workspace: bool) -> RunPlan:
    """Raises Unsupported for what this version cannot carry out."""
    model = class_model(agent_class, template["modelName"])
    tools = tuple(_tool(spec) for spec in members(template, "tools"))
    reply = _reply_tokens(template, model)
    return RunPlan(
        tools=tools,
        budget=_budget(agent_class, budget or {}),
        verification=_verification(template),
        max_output_tokens=reply,
        reply_cost_micro_usd=_worst_cost(model, reply),
        workspace=workspace,
    )


def class_model(agent_class: Object, name: str) -> Object:
    """The class's model of that name. Raises LookupError naming what the class has."""
    models = members(agent_class["spec"], "models")
    found = next((model for model in models if model["name"] == name), None)
    if found is None:
        known = ", ".join(model["name"] for model in models) or "none"
        raise LookupError(f"AgentClass {agent_class['metadata']['name']} has no model {name!r}; it has: {known}")
    return dict(found)


def _tool(spec: Object) -> ToolPlan:
    if spec["executor"] in UNSUPPORTED_EXECUTORS:
        fix = "is not carried out by this version; use Builtin or Sandbox"
        raise Unsupported(f"tool {spec['name']}: executor {spec['executor']} {fix}")
    if (spec.get("approvalRule") or "None") != "None":
        fix = "needs approvals, which this version does not have; use None"
        raise Unsupported(f"tool {spec['name']}: approvalRule {spec['approvalRule']} {fix}")
    return ToolPlan(
        name=spec["name"],
        digest=tool_digest(spec),
        executor=spec["executor"],
        effect=spec["sideEffectClass"],
        retry=spec["retryClass"],
        timeout_seconds=spec.get("timeoutSeconds", DEFAULT_TOOL_SECONDS),
        builtin=spec.get("builtin", ""),
        max_output_bytes=spec.get("maxOutputBytes", DEFAULT_OUTPUT_BYTES),
    )


def _verification(template: Object) -> VerificationPlan | None:
    verification = template.get("verification")
    if verification is None:
        return None
    return VerificationPlan(verification.get("timeoutSeconds", DEFAULT_VERIFICATION_SECONDS))


def _budget(agent_class: Object, asked: Object) -> BudgetPlan:
    """The run's own limit, else the class's default; never beyond the class's maximum."""
    bounds = member(agent_class["spec"], "budget")
    default, most = member(bounds, "default"), member(bounds, "max")
    values: dict[str, int] = {}
    for name in BudgetPlan.__struct_fields__:
        key = json_name(name)
        value = asked.get(key, default.get(key, most.get(key)))
        if value is not None:
            values[name] = min(value, most.get(key, value))
    return BudgetPlan(**values)


def _reply_tokens(template: Object, model: Object) -> int:
    asked = member(template, "modelParameters").get("maxOutputTokens")
    most = model.get("maxOutputTokens", DEFAULT_REPLY_TOKENS)
    return int(min(asked, most) if isinstance(asked, int) and asked > 0 else most)


def _worst_cost(model: Object, reply_tokens: int) -> int:
    """Upper bound of one call at the class's price: a full context in, a full reply out."""
    price = model.get("price")
    if not price:
        return 0
    context = model.get("contextTokens", 0)
    micro = context * price["inputMicroUSDPerMTok"] + reply_tokens * price["outputMicroUSDPerMTok"]
    return int(-(-micro // MTOK))
