"""What must be true before any test runs: a Pod runs, a default-deny drops, an allow opens, DNS answers."""

import json
import time
from pathlib import Path
from typing import Any

import yaml
from tests.cluster import processes
from tests.cluster.addons import BUSYBOX_IMAGE
from tests.cluster.config import API_PORT, CONTROL_PLANE_IP, nodes
from tests.cluster.shell import ClusterError, run, wait_until

NAMESPACE = "cluster-selfcheck"


class SelfCheck:
    """Runs in a namespace of its own, removed at the end."""

    def __init__(self, cluster: str, binaries: Path, kubeconfig: Path) -> None:
        self._cluster = cluster
        self._kubectl = (binaries / "kubectl", f"--kubeconfig={kubeconfig}")
        self._in = ("-n", NAMESPACE)

    def run(self) -> None:
        """Raises ClusterError naming what does not hold; a dead policy engine never passes."""
        for node in nodes(self._cluster):
            processes.must_live(self._cluster, f"{node.name}-kube-router")
        self._apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        try:
            self._checks()
        finally:
            run(*self._kubectl, "delete", "namespace", NAMESPACE, "--wait=false", "--ignore-not-found", check=False)

    def _checks(self) -> None:
        self._apply(_pod("server", "node-1", ["httpd", "-f", "-p", "8080", "-h", "/etc"]))
        self._apply(_pod("client", "node-2", ["sleep", "600"]))
        wait_until("the self-check's Pods run on both nodes", self._running, 90)
        address = self._ip("server")
        wait_until("one Pod reaches another across nodes", lambda: self._reaches(address, 8080), 15)
        wait_until("DNS answers", self._resolves, 45)
        self._apply(_policy("deny", {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}))
        wait_until("a default-deny policy drops (is the policy engine alive?)", lambda: self._closed(address), 20)
        if self._reaches(CONTROL_PLANE_IP, API_PORT):
            raise ClusterError("a default-deny policy leaves the API server open")
        allow_out = {"podSelector": {"matchLabels": {"app": "client"}}, "policyTypes": ["Egress"],
                     "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "server"}}}]}]}  # fmt: skip
        allow_in = {"podSelector": {"matchLabels": {"app": "server"}}, "policyTypes": ["Ingress"],
                    "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "client"}}}]}]}  # fmt: skip
        self._apply(_policy("allow-out", allow_out))
        self._apply(_policy("allow-in", allow_in))
        wait_until("an allow policy opens", lambda: self._reaches(address, 8080), 20)

    def _apply(self, document: dict[str, Any]) -> None:
        text = yaml.safe_dump(document)
        end = time.monotonic() + 30
        while True:  # a new namespace gets its default service account a moment later
            try:
                run(
                    *self._kubectl,
                    *(() if document["kind"] == "Namespace" else self._in),
                    "apply",
                    "-f",
                    "-",
                    data=text,
                )
            except ClusterError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.3)
            else:
                return

    def _running(self) -> bool:
        out = run(*self._kubectl, *self._in, "get", "pods", "-o", "json")
        ready = [
            c for pod in json.loads(out)["items"] for c in pod["status"].get("containerStatuses", []) if c["ready"]
        ]
        return len(ready) == 2

    def _ip(self, name: str) -> str:
        return run(*self._kubectl, *self._in, "get", "pod", name, "-o", "jsonpath={.status.podIP}")

    def _exec(self, *command: str) -> str:
        return run(*self._kubectl, *self._in, "exec", "client", "--", *command, check=False, timeout=30)

    def _connect(self, address: str, port: int) -> str:
        """`open` or `shut`, said by the Pod itself: an exec that fails says neither."""
        return self._exec(
            "sh", "-c", f"nc -w 1 {address} {port} </dev/null >/dev/null && echo open || echo shut"
        ).strip()

    def _reaches(self, address: str, port: int) -> bool:
        return self._connect(address, port) == "open"

    def _closed(self, address: str) -> bool:
        return self._connect(address, 8080) == "shut"

    def _resolves(self) -> bool:
        return "10.242.0.1" in self._exec("nslookup", "kubernetes.default.svc.cluster.local")


def _pod(name: str, node: str, command: list[str]) -> dict[str, Any]:
    container = {"name": "main", "image": BUSYBOX_IMAGE, "command": command, "imagePullPolicy": "Never"}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "nodeSelector": {"kubernetes.io/hostname": node},
                 "terminationGracePeriodSeconds": 0},
    }  # fmt: skip


def _policy(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec}
