"""Gate 3 decides from what was read, anew each time (R16, R17, C45)."""

import copy
from typing import Any

import pytest
from tests.unit.broker.objects import (
    GRANT_UID,
    NOW,
    POD_UID,
    RUN,
    TEMPLATE,
    Object,
    authority,
    digest_of,
    retemplated,
    world,
)

from agentrun.api.digests import tool_digest
from agentrun.broker.authorise import Decision, decide
from agentrun.broker.refusal import Refused
from agentrun.broker.wire import SignCall
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import ErrorClass, Retry
from agentrun.tools.catalogue import Tool
from agentrun.tools.request import tool_request

ARGUMENTS = b'{ "argv":["pytest"], "path": "src/a.py"}'


def call(objects: dict[str, Object], tool: str | None = "run", **change: Any) -> SignCall:
    """A request for a dispatch."""
    arguments = change.pop("arguments", ARGUMENTS)
    argv = b',"argv":["/bin/post"]' if tool == "post" else b""
    body = b'{"arguments":' + arguments + argv + b"}" if tool else b'{"argv":["pytest","-q"]}'
    fields: dict[str, Any] = {
        "run": RUN,
        "fence": 3,
        "step": "t1c0",
        "attempt": 1,
        "template_digest": digest_of(objects),
        "op": ("tool" if tool == "post" else tool) or "put",
        "pod_name": "arun-fix-1-11111111-w1",
        "pod_uid": POD_UID,
        "min_fence": 1,
        "body_digest": sha256_digest(body),
        "body": body,
        "call": "t1c0" if tool else "",
        "tool": tool,
        "arguments_digest": sha256_digest(arguments) if tool else "",
    }
    return SignCall(**{**fields, **change})


def refused(request: SignCall, objects: dict[str, Object], *more: Object) -> Refused:
    with pytest.raises(Refused) as caught:
        decide(request, authority(objects, *more), NOW)
    return caught.value


def granted(objects: dict[str, Object], tool: Object, **spec: Any) -> None:
    """Let the grant be for this tool alone."""
    objects["ToolGrant"]["spec"] = {"definitionName": "fixer", "tools": [tool], **spec}


def test_a_granted_tool_is_allowed_and_the_grant_named_R16() -> None:
    objects = world()
    decision = decide(call(objects), authority(objects), NOW)
    assert decision.grant == GRANT_UID
    assert decision.policy_digest.startswith("sha256:")
    assert not decision.keep


def test_unknown_not_granted_and_denied_are_three_answers_C45() -> None:
    objects = world()
    granted(objects, {"name": "run", "match": [{"path": "/path", "prefix": "docs/"}]})
    errors = [refused(call(objects, tool), objects) for tool in ("no_such_tool", "read", "run")]
    assert [error.error_class for error in errors] == [
        ErrorClass.NOT_FOUND,
        ErrorClass.NOT_GRANTED,
        ErrorClass.DENIED,
    ]
    assert "no tool no_such_tool" in errors[0].message
    assert "no ToolGrant of namespace team-a grants tool read" in errors[1].message
    assert "/path must be text that begins with 'docs/'" in errors[2].message
    assert {error.retry for error in errors} == {Retry.NEVER}


def test_without_any_grant_even_reading_is_not_granted_R16() -> None:
    objects = world()
    del objects["ToolGrant"]
    assert refused(call(objects, "read"), objects).error_class is ErrorClass.NOT_GRANTED


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"expirationTime": "2020-01-01T00:00:00Z"}, "expired at 2020-01-01"),
        ({"templateDigests": ["sha256:" + "0" * 64]}, "does not name template"),
        ({"requesters": []}, "does not name the requester ann"),
        ({"requesters": [{"kind": "User", "name": "bob"}]}, "does not name the requester ann"),
        ({"requesters": [{"kind": "Group", "name": "ann"}]}, "does not name the requester ann"),
        ({"requesters": [{"kind": "ServiceAccount", "name": "ann"}]}, "does not name the requester ann"),
        ({"tools": [{"name": "run", "digest": "sha256:" + "0" * 64}]}, "names digest sha256:000"),
        ({"tools": [{"name": "run", "expresion": "true"}]}, "not readable by this version"),
    ],
)
def test_a_grant_that_does_not_reach_the_run_says_why_R16(spec: Object, told: str) -> None:
    objects = world()
    objects["ToolGrant"]["spec"] |= spec
    error = refused(call(objects), objects)
    assert error.error_class is ErrorClass.NOT_GRANTED
    assert told in error.message


@pytest.mark.parametrize(
    ("attribution", "subject"),
    [
        ({"username": "ann"}, {"kind": "User", "name": "ann"}),
        ({"username": "ann", "groups": ["x", "devs"]}, {"kind": "Group", "name": "devs"}),
        ({"username": "system:serviceaccount:team-a:ci"}, {"kind": "ServiceAccount", "name": "ci"}),
        (
            {"username": "system:serviceaccount:ops:ci"},
            {"kind": "ServiceAccount", "name": "ci", "namespace": "ops"},
        ),
    ],
)
def test_a_grant_reaches_the_requesters_it_names_R16(attribution: Object, subject: Object) -> None:
    objects = world()
    objects["AgentRun"]["spec"]["attribution"] = {"run": attribution}
    objects["ToolGrant"]["spec"]["requesters"] = [subject]
    assert decide(call(objects), authority(objects), NOW).grant == GRANT_UID


def test_a_machine_made_run_acts_for_whom_it_was_made_R16() -> None:
    objects = world()
    objects["AgentRun"]["spec"]["onBehalfOf"] = {"username": "bob"}
    objects["ToolGrant"]["spec"]["requesters"] = [{"kind": "User", "name": "ann"}]
    assert "the requester bob" in refused(call(objects), objects).message


def test_a_grant_of_status_alone_grants_nothing_R16() -> None:
    objects = world()
    grant = objects["ToolGrant"]
    grant["status"], grant["spec"]["tools"] = {"tools": grant["spec"]["tools"]}, [{"name": "read"}]
    assert refused(call(objects), objects).error_class is ErrorClass.NOT_GRANTED


def test_a_grant_of_another_definition_or_going_away_grants_nothing_R16() -> None:
    objects = world()
    objects["ToolGrant"]["spec"]["definitionName"] = "other"
    assert refused(call(objects), objects).error_class is ErrorClass.NOT_GRANTED
    objects = world()
    objects["ToolGrant"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert refused(call(objects), objects).error_class is ErrorClass.NOT_GRANTED


def test_the_tools_own_digest_is_accepted_R16() -> None:
    objects = world()
    granted(objects, {"name": "run", "digest": tool_digest(TEMPLATE["tools"][0])})
    assert decide(call(objects), authority(objects), NOW).grant == GRANT_UID


def test_an_expression_this_version_cannot_evaluate_denies_R16() -> None:
    objects = world()
    granted(objects, {"name": "run", "expression": "true"})
    error = refused(call(objects), objects)
    assert error.error_class is ErrorClass.DENIED
    assert "CEL" in error.message


def test_an_unreadable_grant_beside_a_good_one_takes_nothing_away_R16() -> None:
    objects = world()
    broken = copy.deepcopy(objects["ToolGrant"])
    broken["spec"]["tools"] = "all"
    assert decide(call(objects), authority(objects, broken), NOW).grant == GRANT_UID


@pytest.mark.parametrize("rule", ["EachCall", "FirstUse"])
@pytest.mark.parametrize("place", ["tool", "class", "grant", "another grant"])
def test_an_approval_wanted_anywhere_refuses_until_it_can_be_asked_R16(rule: str, place: str) -> None:
    objects = world()
    strict = copy.deepcopy(objects["ToolGrant"])
    strict["spec"]["approval"] = {"rule": rule}
    strict["metadata"] |= {"name": "strict", "uid": "9"}
    more: list[Object] = []
    if place == "tool":
        template = copy.deepcopy(TEMPLATE)
        template["tools"][0]["approvalRule"] = rule
        retemplated(objects, template)
    elif place == "class":
        objects["AgentClass"]["spec"]["approval"] = {"perEffectClass": {"workspace": rule}}
    elif place == "grant":
        objects["ToolGrant"] = strict
    else:
        more = [strict]
    error = refused(call(objects), objects, *more)
    assert error.error_class is ErrorClass.DENIED
    assert f"approval ({rule})" in error.message


def test_the_class_rule_of_another_effect_does_not_apply() -> None:
    objects = world()
    objects["AgentClass"]["spec"]["approval"] = {"perEffectClass": {"external": "EachCall"}}
    assert decide(call(objects), authority(objects), NOW).grant == GRANT_UID
    assert refused(call(objects, "post"), objects).error_class is ErrorClass.DENIED


def test_an_unkeyed_mutation_is_kept_before_it_is_sent_R6() -> None:
    objects = world()
    assert decide(call(objects, "post"), authority(objects), NOW).keep


@pytest.mark.parametrize("mode", ["Cancel", "Kill"])
def test_a_stopped_run_starts_nothing_but_may_be_killed_R9(mode: str) -> None:
    objects = world()
    objects["AgentRun"]["spec"]["stop"] = {"mode": mode}
    for request in (
        call(objects),
        call(objects, None),
        call(objects, None, op="verify"),
        call(objects, None, op="get"),
    ):
        assert refused(request, objects).error_class is ErrorClass.RUN_STOPPED
    for op in ("kill", "ps"):
        assert decide(call(objects, None, op=op), authority(objects), NOW) == Decision()


def test_a_run_of_another_uid_is_another_run_C9() -> None:
    objects = world()
    objects["AgentRun"]["metadata"]["uid"] = "somebody-else"
    for request in (call(objects), call(objects, None, op="kill")):
        assert refused(request, objects).error_class is ErrorClass.RUN_NOT_FOUND
    del objects["AgentRun"]
    assert refused(call(objects), objects).error_class is ErrorClass.RUN_NOT_FOUND


def test_a_run_being_deleted_starts_nothing() -> None:
    objects = world()
    objects["AgentRun"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert refused(call(objects), objects).error_class is ErrorClass.RUN_STOPPED


@pytest.mark.parametrize(
    ("change", "error_class"),
    [
        ({"uid": "reborn"}, ErrorClass.SANDBOX_LOST),
        ({"ownerReferences": []}, ErrorClass.DENIED),
        ({"ownerReferences": [{"kind": "AgentRun", "uid": "other", "controller": True}]}, ErrorClass.DENIED),
        ({"ownerReferences": [{"kind": "Job", "uid": RUN.uid, "controller": True}]}, ErrorClass.DENIED),
        ({"labels": {"agentrun.dev/run-uid": "other", "agentrun.dev/purpose": "work"}}, ErrorClass.DENIED),
        ({"labels": {"agentrun.dev/run-uid": RUN.uid, "agentrun.dev/purpose": "verify"}}, ErrorClass.DENIED),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, ErrorClass.SANDBOX_LOST),
    ],
)
def test_the_pod_is_the_runs_by_uid_and_owner_C1(change: Object, error_class: ErrorClass) -> None:
    objects = world()
    objects["Pod"]["metadata"] |= change
    assert refused(call(objects), objects).error_class is error_class


def test_verification_is_signed_for_a_verification_pod_only_R21() -> None:
    objects = world()
    assert refused(call(objects, None, op="verify"), objects).error_class is ErrorClass.DENIED
    objects["Pod"]["metadata"]["labels"]["agentrun.dev/purpose"] = "verify"
    assert decide(call(objects, None, op="verify"), authority(objects), NOW) == Decision()
    assert refused(call(objects), objects).error_class is ErrorClass.DENIED


def test_a_template_that_was_changed_after_it_was_frozen_is_refused_R7() -> None:
    objects = world()
    request = call(objects)
    objects["ControllerRevision"]["data"]["tools"][0]["sideEffectClass"] = "ReadOnly"
    error = refused(request, objects)
    assert error.error_class is ErrorClass.DENIED
    assert "holds another template" in error.message


def test_a_revision_of_another_definition_is_not_the_runs_R7() -> None:
    objects = world()
    objects["ControllerRevision"]["metadata"]["labels"]["agentrun.dev/definition"] = "other"
    error = refused(call(objects), objects)
    assert (error.error_class, error.retry) == (ErrorClass.AUTHORITY_UNAVAILABLE, Retry.REPEAT)


@pytest.mark.parametrize("missing", ["AgentDefinition", "AgentClass"])
def test_without_definition_or_class_nothing_is_allowed(missing: str) -> None:
    objects = world()
    request = call(objects)
    del objects[missing]
    assert missing in refused(request, objects).message


@pytest.mark.parametrize(
    ("change", "error_class"),
    [
        ({"body_digest": "sha256:" + "0" * 64}, ErrorClass.INVALID_REQUEST),
        ({"arguments_digest": "sha256:" + "0" * 64}, ErrorClass.INVALID_REQUEST),
        ({"arguments_digest": ""}, ErrorClass.INVALID_REQUEST),
        ({"min_fence": 4}, ErrorClass.INVALID_REQUEST),
        ({"tool": None, "op": "run"}, ErrorClass.INVALID_REQUEST),
        ({"call": ""}, ErrorClass.INVALID_REQUEST),
        ({"body": b""}, ErrorClass.INVALID_ARGUMENTS),
        ({"op": "put"}, ErrorClass.INVALID_REQUEST),
    ],
)
def test_a_request_that_contradicts_itself_is_refused_C17(change: dict[str, Any], error_class: ErrorClass) -> None:
    objects = world()
    assert refused(call(objects, **change), objects).error_class is error_class


def test_the_bytes_that_are_judged_are_the_bytes_that_are_signed_C17() -> None:
    objects = world()
    granted(objects, {"name": "run", "match": [{"path": "/path", "equals": "a"}]})
    body = b'{"arguments":{"path":"a"},"arguments":{"path":"b"}}'
    request = call(objects, body=body, body_digest=sha256_digest(body), arguments_digest=sha256_digest(b'{"path":"a"}'))
    error = refused(request, objects)
    assert error.error_class is ErrorClass.INVALID_ARGUMENTS
    assert "given twice" in error.message


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (b"[1]", "must be a JSON object"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":{"x":1,"x":2}}', "given twice"),
        (b'{"a":9007199254740993}', "2^53"),
        (b'{"a":' + b"[" * 90 + b"]" * 90 + b"}", "nested"),
    ],
)
def test_arguments_with_more_than_one_reading_are_refused_C17(arguments: bytes, told: str) -> None:
    objects = world()
    error = refused(call(objects, arguments=arguments), objects)
    assert error.error_class is ErrorClass.INVALID_ARGUMENTS
    assert told in error.message


@pytest.mark.parametrize("raw", [b'{"path":"a" }', b' {"path": "\\u00e9"}\n'])
@pytest.mark.parametrize("tool", ["read", "run", "post"])
def test_what_the_harness_builds_is_what_the_gate_reads_C17(tool: str, raw: bytes) -> None:
    objects = world()
    spec = next(entry for entry in TEMPLATE["tools"] if entry["name"] == tool)
    built = tool_request(Tool(spec), raw, timeout_seconds=60, max_output_bytes=4096)
    change = {"op": built.op, "body": built.body, "body_digest": sha256_digest(built.body)}
    request = call(objects, tool, **change, arguments_digest=built.arguments_digest)
    assert decide(request, authority(objects), NOW).grant == GRANT_UID


def test_a_grant_for_one_tool_does_not_start_another_C21() -> None:
    objects = world()
    granted(objects, {"name": "read"})
    error = refused(call(objects, "read", op="run"), objects)
    assert error.error_class is ErrorClass.INVALID_REQUEST
    assert "carried out by op read" in error.message


def test_a_tool_of_the_image_runs_its_own_command_only_C21() -> None:
    objects = world()
    body = b'{"arguments":{},"argv":["/bin/sh"]}'
    change = {"body": body, "body_digest": sha256_digest(body), "arguments_digest": sha256_digest(b"{}")}
    assert "argv is not that of tool post" in refused(call(objects, "post", **change), objects).message
    body = b'{"arguments":{}}'
    change |= {"body": body, "body_digest": sha256_digest(body)}
    assert "argv is not that of tool post" in refused(call(objects, "post", **change), objects).message


def test_a_tool_that_no_sandbox_carries_out_is_denied_here() -> None:
    objects = world()
    template = copy.deepcopy(TEMPLATE)
    http = {"executor": "HTTP", "http": {"method": "Get", "url": "https://example.org"}, "description": "d"}
    template["tools"].append({"name": "fetch", "sideEffectClass": "ReadOnly", "retryClass": "Repeat", **http})
    retemplated(objects, template)
    error = refused(call(objects, "fetch"), objects)
    assert error.error_class is ErrorClass.DENIED
    assert "executor HTTP" in error.message


def test_verification_runs_the_templates_command_only_R21() -> None:
    objects = world()
    objects["Pod"]["metadata"]["labels"]["agentrun.dev/purpose"] = "verify"
    other = b'{"argv":["true"]}'
    request = call(objects, None, op="verify", body=other, body_digest=sha256_digest(other))
    assert refused(request, objects).error_class is ErrorClass.INVALID_REQUEST
    assert refused(call(objects, None, op="verify", body=b""), objects).error_class is ErrorClass.INVALID_ARGUMENTS
    template = copy.deepcopy(TEMPLATE)
    del template["verification"]
    retemplated(objects, template)
    assert "has no verification" in refused(call(objects, None, op="verify"), objects).message


def test_an_unrelated_edit_leaves_the_policy_digest_and_a_related_one_changes_it() -> None:
    objects = world()
    before = decide(call(objects), authority(objects), NOW).policy_digest
    objects["ToolGrant"]["metadata"]["labels"] = {"x": "y"}
    objects["AgentClass"]["spec"]["queue"] = {"weight": 7}
    assert decide(call(objects), authority(objects), NOW).policy_digest == before
    objects["ToolGrant"]["spec"]["tools"].append({"name": "write"})
    assert decide(call(objects), authority(objects), NOW).policy_digest != before
