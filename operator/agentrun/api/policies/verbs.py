"""Verb checks: what a person needs beside `create` and `update`, one `authorizer` check per validation.

A check costs 350,000 of the 1,000,000 that one expression may cost, so three in one expression are always denied.
"""

from agentrun.api.policies.objects import Check, Manifest, Match, validating
from agentrun.api.policies.operator import OPERATOR_USERNAME
from agentrun.api.runinput import INLINE_MESSAGE, MAX_INLINE_BYTES

# Finalizers, owner references and labels are no acts of ours.
_CHANGED = (("spec-changed", "oldObject == null || object.spec != oldObject.spec"),)
_OLD = {"old": "oldObject == null ? dyn({}) : dyn(oldObject.spec)"}
MAX_PARAMETERS_BYTES = 65_536
MAX_TEMPLATE_BYTES = 262_144


def _authorized(resource: str, name: str, verb: str, group: str = "agentrun.dev") -> str:
    return (
        f"authorizer.group('{group}').resource('{resource}').namespace(request.namespace)"
        f".name({name}).check('{verb}').allowed()"
    )


def _unchanged(path: str, empty: str) -> str:
    return f"object.spec.?{path}.orValue({empty}) == variables.old.?{path}.orValue({empty})"


def _verb(path: str, verb: str, empty: str = "''", only: str | None = None) -> Check:
    guard = f"{_unchanged(path, empty)} || " + (f"{only} || " if only else "")
    return Check(
        guard + _authorized("agentruns", "object.metadata.name", verb),
        f"spec.{path}: you need verb `{verb}` on agentruns.agentrun.dev in this namespace; "
        "ask for a role that has it, or leave the field as it is",
        "Forbidden",
    )


def _run_checks() -> list[Check]:
    source = "object.spec.forkFrom.name"
    return [
        Check(
            f"(!has(object.spec.parent) && !has(object.spec.onBehalfOf)) || oldObject != null "
            f"|| request.userInfo.username == '{OPERATOR_USERNAME}'",
            "spec.parent and spec.onBehalfOf are set by the operator alone: remove them",
            "Forbidden",
        ),
        _verb("operatingMode", "pause"),
        _verb("stop", "stop", "{}", only="object.spec.stop.mode != 'Cancel'"),
        _verb("stop", "kill", "{}", only="object.spec.stop.mode != 'Kill'"),
        _verb("steering", "steer", "[]"),
        _verb("topUps", "topup", "[]"),
        _verb("resolutions", "resolve", "[]"),
        _verb("migrateTo", "migrate"),
        Check(
            "!has(object.spec.definitionRef.revision) || oldObject != null || "
            + _authorized("agentruns", "object.metadata.name", "pin"),
            "spec.definitionRef.revision: you need verb `pin` on agentruns.agentrun.dev in this namespace; "
            "remove the revision to follow the rollout",
            "Forbidden",
        ),
        *(
            Check(
                f"!has(object.spec.forkFrom) || oldObject != null || {_authorized('agentruns', source, verb)}",
                f"spec.forkFrom: you need verb `{verb}` on the source run (agentruns.agentrun.dev)",
                "Forbidden",
            )
            for verb in ("get", "fork")
        ),
        Check(
            "oldObject != null || !has(object.spec.input) || !has(object.spec.input.parameters) || "
            f"size(bytes('%s'.format([object.spec.input.parameters]))) <= {MAX_PARAMETERS_BYTES}",
            f"spec.input.parameters is too large: at most {MAX_PARAMETERS_BYTES} bytes; use input.files",
        ),
    ]


def _definition_checks() -> list[Check]:
    return [
        Check(
            f"({_unchanged('className', repr(''))} && {_unchanged('template', '{}')}) || "
            + _authorized("agentclasses", "object.spec.className", "use"),
            "spec.className: you need verb `use` on that AgentClass (agentclasses.agentrun.dev, by ClusterRole "
            "and a RoleBinding in this namespace); name a class that you may use",
            "Forbidden",
        ),
        Check(
            f"{_unchanged('schedules', '[]')} || " + _authorized("agentruns", "''", "create"),
            "spec.schedules: who writes a schedule needs verb `create` on agentruns.agentrun.dev in this namespace",
            "Forbidden",
        ),
        Check(
            "object.spec.?schedules.orValue([]).all(s, s.run.?input.?files.orValue([])"
            f".map(f, has(f.text) ? size(bytes(f.text)) : 0).sum() <= {MAX_INLINE_BYTES})",
            f"spec.schedules[].run.input: {INLINE_MESSAGE}",
        ),
        Check(
            f"size(bytes('%s'.format([object.spec.template]))) <= {MAX_TEMPLATE_BYTES}",
            f"spec.template is too large: at most {MAX_TEMPLATE_BYTES} bytes; shorten schemas and instructions",
        ),
    ]


def _grant_checks() -> list[Check]:
    matchers = "[has(m.equals), 'in' in m, has(m.prefix), has(m.range)].filter(set, set).size() == 1"
    secrets = [
        Check(
            f"variables.secrets.size() <= {index} || "
            + _authorized("secrets", f"variables.secrets[{index}]", "get", group=""),
            f"spec.credentials[{index}]: you need verb `get` on that Secret to grant its use",
            "Forbidden",
        )
        for index in range(4)
    ]
    return [
        Check(
            _authorized("agentdefinitions", "object.spec.definitionName", "grant"),
            "spec.definitionName: you need verb `grant` on that AgentDefinition (agentdefinitions.agentrun.dev)",
            "Forbidden",
        ),
        *secrets,
        Check(
            f"object.spec.tools.all(t, !has(t.match) || t.match.all(m, {matchers}))",
            "spec.tools[].match[]: set exactly one of equals, in, prefix, range beside path",
        ),
    ]


def _approval_checks() -> list[Check]:
    return [
        Check(
            _authorized("agentruns", "object.spec.run.name", "approve"),
            "spec.run: you need verb `approve` on that run (agentruns.agentrun.dev)",
            "Forbidden",
        )
    ]


def verb_checks() -> list[Manifest]:
    """The validating policies of the verbs, one per kind."""
    secrets = {"secrets": "object.spec.?credentials.orValue([]).map(c, c.name)"}
    return [
        *validating("agentrun-verbs-agentruns", Match(("agentruns",), when=_CHANGED), _run_checks(), _OLD),
        *validating(
            "agentrun-verbs-agentdefinitions", Match(("agentdefinitions",), when=_CHANGED), _definition_checks(), _OLD
        ),
        *validating("agentrun-verbs-toolgrants", Match(("toolgrants",), when=_CHANGED), _grant_checks(), secrets),
        *validating("agentrun-verbs-toolapprovals", Match(("toolapprovals",), when=_CHANGED), _approval_checks()),
    ]
