"""The three objects every namespace of ours has, owned by nobody and made before the first Pod (design 8)."""

from typing import Any

from agentrun.controller.names import DENY_POLICY, MANAGED, PART_OF, SANDBOX_ACCOUNT, SANDBOX_LABEL, VIEWER_ACCOUNT

Object = dict[str, Any]


def standing_objects(namespace: str) -> tuple[Object, ...]:
    """Default-deny for every sandbox, an account without rights for them, one that readers ask tokens of."""
    return (_deny(namespace), _account(namespace, SANDBOX_ACCOUNT), _account(namespace, VIEWER_ACCOUNT))


def _deny(namespace: str) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": DENY_POLICY, "namespace": namespace, "labels": {**PART_OF, **MANAGED}},
        "spec": {"podSelector": {"matchLabels": {SANDBOX_LABEL: "true"}}, "policyTypes": ["Ingress", "Egress"]},
    }


def _account(namespace: str, name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": {**PART_OF, **MANAGED}},
        "automountServiceAccountToken": False,
    }
