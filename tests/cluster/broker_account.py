"""The broker's account with exactly the rights that the chart gives it, under names of the test's own."""

import subprocess
from pathlib import Path
from typing import Any

import yaml
from tests.cluster.binaries import binaries_path

from agentrun.kube import KubeClient
from agentrun.kube.resources import SERVICE_ACCOUNTS, Resource

CHART = Path(__file__).resolve().parents[2] / "charts" / "agentrun"
ACCOUNT = "agentrun-broker"
_RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", namespaced=False)
_RESOURCES = {
    "ServiceAccount": SERVICE_ACCOUNTS,
    "Role": Resource(_RBAC, "v1", "roles"),
    "RoleBinding": Resource(_RBAC, "v1", "rolebindings"),
    "ClusterRole": CLUSTER_ROLES,
    "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
}


def rights(namespace: str) -> list[dict[str, Any]]:
    """The chart's objects named `agentrun-broker`; cluster-wide ones renamed after the namespace."""
    helm = binaries_path() / "helm"
    shown = ("-s", "templates/rbac.yaml", "-s", "templates/serviceaccounts.yaml")
    command = (str(helm) if helm.exists() else "helm", "template", "t", str(CHART), "-n", namespace, *shown)
    text = subprocess.run([*command, "--set", "image.registry=none"], check=True, capture_output=True, text=True).stdout
    found = [item for item in yaml.safe_load_all(text) if item and item["metadata"]["name"] == ACCOUNT]
    for item in found:
        if item["kind"].startswith("Cluster"):
            item["metadata"]["name"] = namespace
        if item.get("roleRef", {}).get("kind") == "ClusterRole":
            item["roleRef"]["name"] = namespace
    return found


async def kubeconfig_of_the_broker(kube: KubeClient, namespace: str, admin: Path, folder: Path) -> Path:
    """Make the account and its rights; gives a kubeconfig with a token of it."""
    for item in rights(namespace):
        where = None if item["kind"].startswith("Cluster") else namespace
        await kube.create(_RESOURCES[item["kind"]], item, where)
    spec = {"spec": {"expirationSeconds": 3600}}
    path = SERVICE_ACCOUNTS.path(namespace, ACCOUNT, "token")
    token = (await kube.request("POST", path, body=spec))["status"]["token"]
    written = folder / "kubeconfig"
    written.write_text(_as_somebody(admin, token))
    return written


def _as_somebody(admin: Path, token: str) -> str:
    config = yaml.safe_load(admin.read_text())
    for entry in config["clusters"]:
        authority = entry["cluster"].get("certificate-authority")
        if authority:
            entry["cluster"]["certificate-authority"] = str(admin.parent / authority)
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    return yaml.safe_dump(config)


async def take_away(kube: KubeClient, namespace: str) -> None:
    """Delete what is not in the namespace."""
    await kube.delete(CLUSTER_ROLE_BINDINGS, namespace)
    await kube.delete(CLUSTER_ROLES, namespace)
