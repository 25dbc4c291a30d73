"""Gate 3: may this call be dispatched? A pure decision over what was read (R16, design 6)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentrun.api.agentclass import AgentClassSpec
from agentrun.api.digests import tool_digest
from agentrun.api.subjects import ApprovalRule
from agentrun.api.toolspec import IdempotencyMode, SideEffectClass, ToolSpec
from agentrun.broker.authority import PURPOSE_LABEL, RUN_UID_LABEL, Authority, Object, is_going, labels_of, uid_of
from agentrun.broker.body import arguments_of, check_verification
from agentrun.broker.grants import Grant, Wanted, matching
from agentrun.broker.refusal import Refused
from agentrun.broker.runs import LiveRun, existing_run, live_run
from agentrun.broker.wire import STOPPING_OPS, UNGRANTED_OPS, SignCall
from agentrun.core.digest import digest_json, sha256_digest
from agentrun.core.errors import ErrorClass

_RISING = (ApprovalRule.NONE, ApprovalRule.FIRST_USE, ApprovalRule.EACH_CALL)

_PURPOSES = {"verify": ("verify",), "put": ("work", "verify"), "get": ("work", "verify")}


@dataclass(frozen=True)
class Decision:
    """Allowed; `grant` is the UID of the first grant that holds, empty where none is needed.

    `keep`: an unkeyed mutation, whose verdict is committed before anything is sent.
    """

    grant: str = ""
    policy_digest: str = ""
    keep: bool = False


def decide(call: SignCall, read: Authority, now: int) -> Decision:
    """Whether the dispatch may be signed. Raises Refused."""
    _check_bytes(call)
    if call.op in STOPPING_OPS:
        existing_run(call.run, read.run)
        _check_pod(call, read)
        return Decision()
    run = live_run(call.run, call.template_digest, read)
    _check_pod(call, read)
    if call.op == "verify":
        verification = run.template.verification
        check_verification(call, None if verification is None else verification.argv)
    if call.op in UNGRANTED_OPS:
        return Decision()
    return _decide_tool(call, run, read, now)


def _check_bytes(call: SignCall) -> None:
    if call.body and sha256_digest(call.body) != call.body_digest:
        raise Refused(ErrorClass.INVALID_REQUEST, "bodyDigest is not the digest of body")
    if call.min_fence > call.fence:
        raise Refused(ErrorClass.INVALID_REQUEST, "minFence must be at most fence")
    if call.op in UNGRANTED_OPS and call.tool:
        raise Refused(ErrorClass.INVALID_REQUEST, f"op {call.op} carries no tool call: leave tool out")


def _check_pod(call: SignCall, read: Authority) -> None:
    """The Pod is the run's by UID and owner, never by its name or a label alone (orka#589)."""
    pod = read.pod
    if pod is None or uid_of(pod) != call.pod_uid:
        raise Refused(ErrorClass.SANDBOX_LOST, f"Pod {call.pod_name} with UID {call.pod_uid} does not exist")
    owners: list[Object] = pod["metadata"].get("ownerReferences") or []
    owned = any(
        owner.get("kind") == "AgentRun" and owner.get("uid") == call.run.uid and owner.get("controller") is True
        for owner in owners
    )
    if not owned or labels_of(pod).get(RUN_UID_LABEL) != call.run.uid:
        raise Refused(ErrorClass.DENIED, f"Pod {call.pod_name} is not the run's")
    if call.op not in STOPPING_OPS:
        _check_use(call, pod)


def _check_use(call: SignCall, pod: Object) -> None:
    """Verification happens in a Pod of its own, the model's work in another (design 8)."""
    if is_going(pod):
        raise Refused(ErrorClass.SANDBOX_LOST, f"Pod {call.pod_name} is being deleted")
    purpose = labels_of(pod).get(PURPOSE_LABEL)
    wanted = _PURPOSES.get(call.op, ("work",))
    if purpose not in wanted:
        message = f"op {call.op} is for a Pod of purpose {' or '.join(wanted)}; {call.pod_name} is for {purpose}"
        raise Refused(ErrorClass.DENIED, message)


def _decide_tool(call: SignCall, run: LiveRun, read: Authority, now: int) -> Decision:
    tool, raw_tool = _tool(call, run)
    arguments = arguments_of(call, tool)
    grants = matching(Wanted(run, tool, raw_tool, now), read.grants, arguments)
    class_rule = _class_rule(run.agent_class, tool)
    rule = _strictest(tool.approval_rule, class_rule, *(_rule(grant) for grant in grants))
    if rule is not ApprovalRule.NONE:
        message = f"tool {tool.name} needs a person's approval ({rule}), which this version cannot ask for yet"
        raise Refused(ErrorClass.DENIED, message)
    policy = {
        "grants": [{"uid": grant.uid, "spec": grant.spec_digest} for grant in grants],
        "classRule": str(class_rule or ApprovalRule.NONE),
        "tool": tool_digest(raw_tool),
        "template": run.template_digest,
    }
    return Decision(grants[0].uid, digest_json(policy), keep=is_unkeyed_mutation(tool))


def _tool(call: SignCall, run: LiveRun) -> tuple[ToolSpec, Mapping[str, Any]]:
    """The tool as model and as stored. Another answer than "not granted": the model has named what is not there."""
    if not call.tool or not call.call:
        raise Refused(ErrorClass.INVALID_REQUEST, f"op {call.op} needs tool and call")
    tool = next((tool for tool in run.template.tools if tool.name == call.tool), None)
    if tool is None:
        raise Refused(ErrorClass.NOT_FOUND, f"the template has no tool {call.tool}")
    return tool, next(raw for raw in run.raw_template["tools"] if raw["name"] == call.tool)


def _class_rule(agent_class: AgentClassSpec, tool: ToolSpec) -> ApprovalRule | None:
    rules = agent_class.approval.per_effect_class
    match tool.side_effect_class:
        case SideEffectClass.READ_ONLY:
            return rules.read_only
        case SideEffectClass.WORKSPACE:
            return rules.workspace
        case SideEffectClass.EXTERNAL:
            return rules.external


def _rule(grant: Grant) -> ApprovalRule | None:
    return None if grant.spec.approval is None else grant.spec.approval.rule


def _strictest(*rules: ApprovalRule | None) -> ApprovalRule:
    return max((rule for rule in rules if rule is not None), key=_RISING.index, default=ApprovalRule.NONE)


def is_unkeyed_mutation(tool: ToolSpec) -> bool:
    """Whether a second execution could do harm outside: nobody compares a key, nature does not forgive it."""
    mode = IdempotencyMode.NONE if tool.idempotency is None else tool.idempotency.mode
    return tool.side_effect_class is SideEffectClass.EXTERNAL and mode is IdempotencyMode.NONE
