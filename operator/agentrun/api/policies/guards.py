"""Guards of status, of budget keys in quotas, and of the way into sandboxes."""

from agentrun.api.kinds import KINDS
from agentrun.api.policies.objects import Check, Manifest, Match, resource_rule, validating
from agentrun.api.policies.operator import OPERATOR_USERNAME

BUDGET_DOMAIN = "budget.agentrun.dev"
BUDGET_KEYS = tuple(
    f"{BUDGET_DOMAIN}/{name}"
    for name in (
        "cost-microusd",
        "model-calls",
        "input-tokens",
        "output-tokens",
        "tool-calls",
        "mutations",
        "output-bytes",
        "sub-runs",
        "sandbox-seconds",
        "active-runs",
    )
)
SANDBOX_PREFIX = "arun-"


def status_guard() -> list[Manifest]:
    """Nobody but the operator writes status, cluster admins included."""
    check = Check(
        f"request.userInfo.username == '{OPERATOR_USERNAME}'",
        "status is derived from the journal and written by the operator alone: change spec instead",
        "Forbidden",
    )
    resources = tuple(f"{kind.plural}/status" for kind in KINDS)
    return validating("agentrun-status", Match(resources, operations=("UPDATE",)), [check])


def quota_guard() -> list[Manifest]:
    """Budget keys must be known (a typo would be no limit at all) and stand in quotas of their own."""
    ours = "k.split('/')[0].endsWith('agentrun.dev')"
    known = ", ".join(repr(key) for key in BUDGET_KEYS)
    has_ours = f"object.?spec.?hard.orValue({{}}).exists(k, {ours})"
    match = Match(
        ("resourcequotas",),
        group="",
        when=(
            ("has-budget-keys", has_ours),
            ("spec-changed", "oldObject == null || object.spec != oldObject.spec"),
        ),
    )
    checks = [
        Check(
            f"object.spec.hard.all(k, !{ours} || k in [{known}])",
            f"spec.hard: unknown budget key; known keys are {', '.join(BUDGET_KEYS)}",
        ),
        Check(
            f"object.spec.hard.all(k, {ours})",
            f"spec.hard: keys of {BUDGET_DOMAIN} need a ResourceQuota of their own; move the other keys to another one",
        ),
        Check(
            "!has(object.spec.scopes) && !has(object.spec.scopeSelector)",
            f"spec.scopes, spec.scopeSelector: a quota with keys of {BUDGET_DOMAIN} cannot be scoped; remove them",
        ),
    ]
    return validating("agentrun-budget-keys", match, checks)


def sandbox_guard() -> list[Manifest]:
    """Reaching into a sandbox Pod needs verb `shell` on agentruns of the namespace."""
    match = Match(
        ("pods/exec", "pods/attach", "pods/portforward", "pods/proxy"),
        operations=("CONNECT",),
        group="",
        when=(("sandbox", f"request.name.startsWith('{SANDBOX_PREFIX}')"),),
    )
    debug = Match(("pods/ephemeralcontainers",), group="")
    check = Check(
        "authorizer.group('agentrun.dev').resource('agentruns').namespace(request.namespace).check('shell').allowed()",
        "this Pod is a sandbox: exec, attach, port-forward, proxy and debug need verb `shell` on "
        "agentruns.agentrun.dev in this namespace",
        "Forbidden",
    )
    rules = [resource_rule(match), resource_rule(debug, operations=("UPDATE",))]
    return validating("agentrun-sandbox-connect", match, [check], rules=rules)
