"""What a cluster has beside its processes: images, DNS, storage, rights of the node components."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml
from tests.cluster.config import CACHE, DNS_IP, DOMAIN, Node, nodes, state_dir
from tests.cluster.images import load_image, pack_oci
from tests.cluster.node import PAUSE_IMAGE
from tests.cluster.resources import Record
from tests.cluster.shell import run

BUSYBOX_IMAGE = "agentrun.test/busybox:1"
COREDNS_IMAGE = "agentrun.test/coredns:1"
VOLUMES_PER_MODE = 3
PAUSE_C = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void quit(int s) { _exit(s == SIGCHLD); }
int main(void) {
  signal(SIGTERM, quit); signal(SIGINT, quit);
  for (;;) { while (waitpid(-1, 0, WNOHANG) > 0) {} pause(); }
}
"""
APPLETS = [
    "sh",
    "cat",
    "echo",
    "ls",
    "mkdir",
    "rm",
    "cp",
    "mv",
    "ps",
    "sleep",
    "wget",
    "nc",
    "nslookup",
    "httpd",
    "env",
    "id",
    "touch",
    "head",
    "tail",
    "grep",
    "sed",
    "awk",
    "find",
    "sort",
    "wc",
    "true",
    "false",
    "kill",
    "setsid",
    "seq",
    "test",
    "tar",
    "vi",
    "date",
    "dd",
    "df",
    "mount",
    "hostname",
    "ping",
    "ip",
    "netstat",
    "printf",
    "basename",
    "dirname",
    "xargs",
]
COREFILE = f""".:5353 {{
  errors
  health :8080
  ready :8181
  kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{
    pods insecure
    fallthrough in-addr.arpa ip6.arpa
  }}
  cache 5
  reload
}}
"""


def load_base_images(cluster: str, binaries: Path) -> None:
    """Pause, busybox and CoreDNS: the images no registry is asked for."""
    folder = CACHE / "images" / f"base-{binaries.name}"
    for name, make in (("pause", _pause), ("busybox", _busybox), ("coredns", _coredns)):
        archive = folder / f"{name}.tar"
        if not archive.exists():
            with tempfile.TemporaryDirectory() as work:
                make(Path(work), archive, binaries)
        load_image(archive, cluster, binaries)


def _pause(work: Path, archive: Path, _binaries: Path) -> None:
    (work / "pause.c").write_text(PAUSE_C)
    (work / "root").mkdir()
    run("gcc", "-Os", "-static", "-s", "-o", work / "root" / "pause", work / "pause.c")
    pack_oci(work / "root", archive, name=PAUSE_IMAGE, entrypoint=["/pause"], user="65535:65535")


def _busybox(work: Path, archive: Path, _binaries: Path) -> None:
    for folder in ("bin", "etc", "tmp", "root", "var/www", "home"):
        (work / folder).mkdir(parents=True)
    (work / "tmp").chmod(0o1777)
    shutil.copy("/bin/busybox", work / "bin" / "busybox")
    for applet in APPLETS:
        (work / "bin" / applet).symlink_to("busybox")
    (work / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/sh\n")
    pack_oci(work, archive, name=BUSYBOX_IMAGE, cmd=["/bin/sh"], env=["PATH=/bin"])


def _coredns(work: Path, archive: Path, binaries: Path) -> None:
    shutil.copy(binaries / "coredns", work / "coredns")
    pack_oci(work, archive, name=COREDNS_IMAGE, entrypoint=["/coredns"], user="65532:65532")


def manifests(cluster: str) -> str:
    """Everything that is applied at the start, as YAML."""
    documents: list[dict[str, Any]] = [*_rights(), *_dns(), *_storage(cluster)]
    return yaml.safe_dump_all(documents)


def prepare_volumes(record: Record, cluster: str) -> None:
    """Folders of the local volumes."""
    for node in nodes(cluster):
        for name in volume_names(node):
            (node.state / "volumes" / name).mkdir(parents=True, exist_ok=True)
    record.add("path", str(state_dir(cluster) / "volumes"))


def volume_names(node: Node) -> list[str]:
    """Names of a node's volumes."""
    return [f"{node.name}-{mode}-{i}" for mode in ("rwo", "rwop") for i in range(VOLUMES_PER_MODE)]


def volume(node: Node, name: str) -> dict[str, Any]:
    """One local PersistentVolume; ReadWriteOncePod must be a volume's only mode."""
    mode = "ReadWriteOncePod" if "-rwop-" in name else "ReadWriteOnce"
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}]}]
    return {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": {"test": "local"}},
        "spec": {
            "capacity": {"storage": "2Gi"}, "accessModes": [mode], "storageClassName": "local",
            "persistentVolumeReclaimPolicy": "Retain", "local": {"path": str(node.state / "volumes" / name)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }  # fmt: skip


def _storage(cluster: str) -> list[dict[str, Any]]:
    local = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip
    return [local, *(volume(node, name) for node in nodes(cluster) for name in volume_names(node))]


def _rights() -> list[dict[str, Any]]:
    watch = ["get", "list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "pods", "services", "namespaces", "endpoints"], "verbs": watch},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": watch},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": watch},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
    ]
    return [
        _role("kube-router", rules),
        _binding("kube-router", "kube-router", {"kind": "User", "name": "kube-router"}),
    ]


def _role(name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    api = "rbac.authorization.k8s.io/v1"
    return {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def _binding(name: str, role: str, subject: dict[str, str]) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    if subject["kind"] == "User":
        subject = {**subject, "apiGroup": group}
    return {
        "apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role}, "subjects": [subject],
    }  # fmt: skip


def _dns() -> list[dict[str, Any]]:
    labels = {"k8s-app": "kube-dns"}
    meta = {"name": "coredns", "namespace": "kube-system"}
    watch = ["list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": watch},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": watch},
    ]
    container = {
        "name": "coredns", "image": COREDNS_IMAGE, "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"containerPort": 5353, "name": "dns", "protocol": "UDP"},
            {"containerPort": 5353, "name": "dns-tcp"},
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
    }  # fmt: skip
    pod = {
        "serviceAccountName": "coredns", "dnsPolicy": "Default", "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
        "tolerations": [{"operator": "Exists"}],
    }  # fmt: skip
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 5353},
    ]
    service = {"clusterIP": DNS_IP, "selector": labels, "ports": ports}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        _role("coredns", rules),
        _binding("coredns", "coredns", {"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"Corefile": COREFILE}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": {**meta, "name": "kube-dns"}, "spec": service},
    ]
