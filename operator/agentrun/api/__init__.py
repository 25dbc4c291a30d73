"""The API of group agentrun.dev: pydantic models of the five kinds, conditions, digests, schema generation."""

from agentrun.api.agentclass import AgentClass, AgentClassSpec, EgressRule, Model, Provider
from agentrun.api.agentdefinition import AgentDefinition, AgentDefinitionSpec, AgentDefinitionStatus
from agentrun.api.agentrun import (
    AgentRun,
    AgentRunSpec,
    DeliverAt,
    OperatingMode,
    RerunPolicy,
    ResolutionOutcome,
    StopMode,
)
from agentrun.api.agentrun_status import AgentRunStatus, RunState
from agentrun.api.common import API_VERSION, GROUP, VERSION, Actor, ObjectMeta
from agentrun.api.conditions import Condition, ConditionStatus, ConditionType
from agentrun.api.digests import template_digest, tool_digest
from agentrun.api.limits import Limits, LimitUse
from agentrun.api.runinput import InputFile, RunInput
from agentrun.api.subjects import ApprovalRule, Subject
from agentrun.api.template import Sandbox, Template, Verification
from agentrun.api.toolapproval import Decision, ToolApproval, ToolApprovalSpec
from agentrun.api.toolgrant import ToolGrant, ToolGrantSpec
from agentrun.api.toolspec import Builtin, Executor, IdempotencyMode, RetryClass, SideEffectClass, ToolSpec

__all__ = [
    "API_VERSION",
    "GROUP",
    "VERSION",
    "Actor",
    "AgentClass",
    "AgentClassSpec",
    "AgentDefinition",
    "AgentDefinitionSpec",
    "AgentDefinitionStatus",
    "AgentRun",
    "AgentRunSpec",
    "AgentRunStatus",
    "ApprovalRule",
    "Builtin",
    "Condition",
    "ConditionStatus",
    "ConditionType",
    "Decision",
    "DeliverAt",
    "EgressRule",
    "Executor",
    "IdempotencyMode",
    "InputFile",
    "LimitUse",
    "Limits",
    "Model",
    "ObjectMeta",
    "OperatingMode",
    "Provider",
    "RerunPolicy",
    "ResolutionOutcome",
    "RetryClass",
    "RunInput",
    "RunState",
    "Sandbox",
    "SideEffectClass",
    "StopMode",
    "Subject",
    "Template",
    "ToolApproval",
    "ToolApprovalSpec",
    "ToolGrant",
    "ToolGrantSpec",
    "ToolSpec",
    "Verification",
    "template_digest",
    "tool_digest",
]
