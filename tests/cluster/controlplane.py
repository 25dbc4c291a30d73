"""etcd, API server, controller-manager and scheduler, on the host side of the nodes."""

import json
from pathlib import Path

import yaml
from tests.cluster import processes
from tests.cluster.config import (
    API_PORT,
    API_SERVICE_IP,
    CONTROL_PLANE_IP,
    DOMAIN,
    ETCD_PORT,
    POD_CIDR,
    SERVICE_CIDR,
    Node,
    nodes,
    state_dir,
)
from tests.cluster.pki import Authority, key_pair
from tests.cluster.shell import ClusterError, run, tail, wait_until

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
        {"level": "None"},
    ],
}
CLIENTS = {
    "admin": ("agentrun-test-admin", ["system:masters"]),
    "kube-controller-manager": ("system:kube-controller-manager", []),
    "kube-scheduler": ("system:kube-scheduler", []),
    "kube-proxy": ("system:kube-proxy", []),
    "kube-router": ("kube-router", []),
    "apiserver-kubelet-client": ("kube-apiserver-kubelet-client", ["system:masters"]),
}


def make_certificates(cluster: str) -> None:
    """Every certificate and kubeconfig of the cluster."""
    folder = state_dir(cluster) / "pki"
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority(folder)
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{DOMAIN}"]
    hosts = [*names, "localhost", API_SERVICE_IP, CONTROL_PLANE_IP, "127.0.0.1"]
    authority.issue("apiserver", "kube-apiserver", hosts=hosts)
    for name, (user, groups) in CLIENTS.items():
        authority.issue(name, user, groups)
        _kubeconfig(cluster, name)
    for node in nodes(cluster):
        authority.issue(node.name, f"system:node:{node.name}", ["system:nodes"], [node.name, node.ip])
        _kubeconfig(cluster, node.name)
    front = Authority(folder, "front-proxy-ca")
    front.issue("front-proxy-client", "front-proxy-client")
    key_pair(folder, "service-account")
    admin = kubeconfig(cluster, "admin").read_text()
    (state_dir(cluster) / "kubeconfig").write_text(admin)


def kubeconfig(cluster: str, name: str) -> Path:
    """Kubeconfig of one client."""
    return state_dir(cluster) / "pki" / f"{name}.kubeconfig"


def _kubeconfig(cluster: str, name: str) -> None:
    folder = state_dir(cluster) / "pki"
    server = {"server": f"https://{CONTROL_PLANE_IP}:{API_PORT}", "certificate-authority": str(folder / "ca.crt")}
    user = {"client-certificate": str(folder / f"{name}.crt"), "client-key": str(folder / f"{name}.key")}
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "agentrun-test",
        "clusters": [{"name": "agentrun-test", "cluster": server}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "agentrun-test", "context": {"cluster": "agentrun-test", "user": name}}],
    }  # fmt: skip
    path = kubeconfig(cluster, name)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))


def start(cluster: str, binaries: Path) -> None:
    """Bring the control plane up; returns when the API server is ready."""
    state = state_dir(cluster)
    (state / "audit-policy.yaml").write_text(json.dumps(AUDIT_POLICY))
    processes.start(cluster, "etcd", _etcd(state, binaries))
    processes.start(cluster, "kube-apiserver", _apiserver(state, binaries))
    wait_ready(cluster, binaries)
    processes.start(cluster, "kube-controller-manager", _controller_manager(cluster, binaries))
    scheduler = str(kubeconfig(cluster, "kube-scheduler"))
    processes.start(cluster, "kube-scheduler", [
        str(binaries / "kube-scheduler"), f"--kubeconfig={scheduler}", "--leader-elect=false",
        f"--authentication-kubeconfig={scheduler}", f"--authorization-kubeconfig={scheduler}",
        "--bind-address=127.0.0.1",
    ])  # fmt: skip


def wait_ready(cluster: str, binaries: Path, seconds: float = 60) -> None:
    """Wait for /readyz; an API server that has ended is told with the end of its log."""
    kubectl = (binaries / "kubectl", f"--kubeconfig={kubeconfig(cluster, 'admin')}")

    def ready() -> bool:
        for name in ("etcd", "kube-apiserver"):
            if not processes.alive(cluster, name):
                raise ClusterError(f"{name} has ended: {tail(processes.log_path(cluster, name))}")
        return run(*kubectl, "get", "--raw", "/readyz", check=False, timeout=20).strip() == "ok"

    wait_until("the API server is ready", ready, seconds)


def _etcd(state: Path, binaries: Path) -> list[str]:
    client, peer = f"http://127.0.0.1:{ETCD_PORT}", f"http://127.0.0.1:{ETCD_PORT + 1}"
    return [
        str(binaries / "etcd"), "--name=test", f"--data-dir={state / 'etcd'}",
        f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=test={peer}",
        "--log-level=warn", "--unsafe-no-fsync",
    ]  # fmt: skip


def _apiserver(state: Path, binaries: Path) -> list[str]:
    pki = state / "pki"
    return [
        str(binaries / "kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{ETCD_PORT}",
        f"--bind-address={CONTROL_PLANE_IP}", f"--advertise-address={CONTROL_PLANE_IP}", f"--secure-port={API_PORT}",
        f"--service-cluster-ip-range={SERVICE_CIDR}", "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction", f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}", f"--tls-private-key-file={pki / 'apiserver.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
        f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
        f"--service-account-key-file={pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client", "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
        f"--audit-policy-file={state / 'audit-policy.yaml'}", f"--audit-log-path={state / 'audit.log'}",
        "--audit-log-mode=blocking", "--profiling=false",
    ]  # fmt: skip


def _controller_manager(cluster: str, binaries: Path) -> list[str]:
    pki = state_dir(cluster) / "pki"
    config = str(kubeconfig(cluster, "kube-controller-manager"))
    return [
        str(binaries / "kube-controller-manager"), f"--kubeconfig={config}", f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}", "--leader-elect=false", "--bind-address=127.0.0.1",
        f"--cluster-cidr={POD_CIDR}", "--use-service-account-credentials=true",
        f"--root-ca-file={pki / 'ca.crt'}", f"--service-account-private-key-file={pki / 'service-account.key'}",
        # With the default limits a namespace's default account appears after 10 s.
        "--kube-api-qps=500", "--kube-api-burst=1000", "--resource-quota-sync-period=5s",
        # A killed kubelet is NotReady after 14 s instead of 50.
        "--node-monitor-grace-period=8s", "--node-monitor-period=1s",
    ]  # fmt: skip


def node_of(cluster: str, name: str) -> Node:
    """The node of that name."""
    return next(node for node in nodes(cluster) if node.name == name)
