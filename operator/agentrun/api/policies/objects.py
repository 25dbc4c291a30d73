"""Builds the objects of admissionregistration.k8s.io/v1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrun.api.common import GROUP

Manifest = dict[str, Any]
_API_VERSION = "admissionregistration.k8s.io/v1"
LABELS = {"app.kubernetes.io/part-of": "agentrun"}


@dataclass(frozen=True)
class Check:
    """One validation: an expression that must hold, and the message that names the fix."""

    expression: str
    message: str
    reason: str = "Invalid"


@dataclass(frozen=True)
class Match:
    """What a policy applies to. `when` are CEL expressions by name; all must hold."""

    resources: tuple[str, ...]
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    group: str = GROUP
    when: tuple[tuple[str, str], ...] = ()


def _metadata(name: str) -> Manifest:
    return {"name": name, "labels": dict(LABELS)}


def resource_rule(match: Match, operations: Sequence[str] | None = None) -> Manifest:
    """One resource rule for all versions of the group."""
    return {
        "apiGroups": [match.group],
        "apiVersions": ["*"],
        "operations": list(operations or match.operations),
        "resources": list(match.resources),
    }


def _common(match: Match, variables: Mapping[str, str], rules: Sequence[Manifest] | None) -> Manifest:
    spec: Manifest = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": list(rules or [resource_rule(match)])},
    }
    if match.when:
        spec["matchConditions"] = [{"name": name, "expression": text} for name, text in match.when]
    if variables:
        spec["variables"] = [{"name": name, "expression": text} for name, text in variables.items()]
    return spec


def validating(
    name: str,
    match: Match,
    checks: Sequence[Check],
    variables: Mapping[str, str] | None = None,
    rules: Sequence[Manifest] | None = None,
) -> list[Manifest]:
    """A ValidatingAdmissionPolicy and its binding, which denies."""
    spec = _common(match, variables or {}, rules)
    spec["validations"] = [
        {"expression": check.expression, "message": check.message, "reason": check.reason} for check in checks
    ]
    policy = {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": _metadata(name),
        "spec": spec,
    }
    binding = {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": _metadata(name),
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [policy, binding]


def mutating(name: str, match: Match, patch: str, variables: Mapping[str, str]) -> list[Manifest]:
    """A MutatingAdmissionPolicy with one JSON patch, run again if a later mutation changed the object."""
    spec = _common(match, variables, None)
    spec["reinvocationPolicy"] = "IfNeeded"
    spec["mutations"] = [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]
    policy = {
        "apiVersion": _API_VERSION,
        "kind": "MutatingAdmissionPolicy",
        "metadata": _metadata(name),
        "spec": spec,
    }
    binding = {
        "apiVersion": _API_VERSION,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": _metadata(name),
        "spec": {"policyName": name},
    }
    return [policy, binding]
