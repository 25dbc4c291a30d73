"""What the installed accounts may do, asked of the real authorizer (R21, C72)."""

import pytest
from tests.cluster.fixtures import Kubectl
from tests.cluster.shell import ClusterError
from tests.e2e.install import NAMESPACE

ACCOUNTS = ("agentrun-operator", "agentrun-broker")
ESCALATING = (
    ("bind", "clusterroles.rbac.authorization.k8s.io"),
    ("escalate", "clusterroles.rbac.authorization.k8s.io"),
    ("bind", "roles.rbac.authorization.k8s.io"),
    ("escalate", "roles.rbac.authorization.k8s.io"),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
    ("create", "rolebindings.rbac.authorization.k8s.io"),
    ("impersonate", "users"),
    ("impersonate", "groups"),
    ("impersonate", "serviceaccounts"),
    ("create", "serviceaccounts/token"),
    ("create", "pods/exec"),
    ("create", "pods/ephemeralcontainers"),
    ("update", "nodes"),
    ("update", "agentruns.agentrun.dev"),
    ("patch", "agentruns.agentrun.dev"),
    ("create", "toolgrants.agentrun.dev"),
    ("patch", "toolgrants.agentrun.dev"),
    ("create", "toolapprovals.agentrun.dev"),
    ("patch", "validatingadmissionpolicies.admissionregistration.k8s.io"),
    ("*", "*"),
)


def may(kubectl: Kubectl, account: str, verb: str, resource: str, *flags: str) -> bool:
    """`kubectl auth can-i` for one of our accounts; anything but a clear yes or no is an error."""
    user = f"--as=system:serviceaccount:{NAMESPACE}:{account}"
    kind, _, subresource = resource.partition("/")  # kubectl would take what follows the slash for a name
    part = [f"--subresource={subresource}"] if subresource else []
    said = kubectl("auth", "can-i", verb, kind, user, *part, *flags, check=False).strip().splitlines()
    if not said or said[-1] not in ("yes", "no"):
        raise ClusterError(f"can-i {verb} {resource} gave no answer: {said}")
    return said[-1] == "yes"


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize(("verb", "resource"), ESCALATING)
def test_no_account_of_ours_can_widen_anyones_rights_C72(
    installed: Kubectl, account: str, verb: str, resource: str
) -> None:
    assert not may(installed, account, verb, resource, "--all-namespaces")
    assert not may(installed, account, verb, resource, "-n", NAMESPACE)


@pytest.mark.parametrize("verb", ["get", "list", "watch"])
def test_only_the_broker_reads_secrets_and_only_in_the_platform_namespace_R21(installed: Kubectl, verb: str) -> None:
    assert not may(installed, "agentrun-operator", verb, "secrets", "--all-namespaces")
    assert not may(installed, "agentrun-operator", verb, "secrets", "-n", NAMESPACE)
    assert not may(installed, "agentrun-broker", verb, "secrets", "--all-namespaces")
    assert may(installed, "agentrun-broker", "get", "secrets", "-n", NAMESPACE)


def test_the_question_can_be_answered_with_yes(installed: Kubectl) -> None:
    """What the operator lives on: were every answer no, the tests above would show nothing."""
    assert may(installed, "agentrun-operator", "create", "pods", "-n", "default")
    assert may(installed, "agentrun-operator", "patch", "agentruns.agentrun.dev/status", "-n", "default")


def test_a_sandboxes_account_may_do_nothing(installed: Kubectl) -> None:
    user = "--as=system:serviceaccount:default:agentrun-sandbox"
    for verb, resource in (("get", "pods"), ("get", "secrets"), ("create", "agentruns.agentrun.dev"), ("*", "*")):
        said = installed("auth", "can-i", verb, resource, user, "-n", "default", check=False).strip()
        assert said.endswith("no"), (verb, resource, said)
