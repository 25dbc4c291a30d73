"""One node: containerd, kubelet, kube-proxy and the NetworkPolicy engine, in its own network namespace."""

import json
from pathlib import Path

import yaml
from tests.cluster import processes
from tests.cluster.config import DNS_IP, DOMAIN, POD_CIDR, Node, state_dir
from tests.cluster.controlplane import kubeconfig
from tests.cluster.resources import CGROUPS, Record
from tests.cluster.shell import run, wait_until

PAUSE_IMAGE = "agentrun.test/pause:1"
PARTS = ("containerd", "kubelet", "kube-proxy", "kube-router")


def prepare(record: Record, node: Node, binaries: Path) -> None:
    """Folders, cgroup roots and configuration."""
    for folder in (node.runtime, node.state / "cni" / "conf", node.state / "kubelet", node.state / "containerd"):
        folder.mkdir(parents=True, exist_ok=True)
    _make_cgroups(record, node)
    (node.state / "cni" / "conf" / "10-bridge.conflist").write_text(json.dumps(_cni(node)))
    (node.state / "containerd.toml").write_text(_containerd(node, binaries))
    (node.state / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(node)))
    (node.state / "kube-proxy.yaml").write_text(yaml.safe_dump(_kube_proxy(node)))
    (node.state / "resolv.conf").write_text("")


def start_runtime(node: Node, binaries: Path) -> None:
    """containerd, ready to take images."""
    argv = [str(binaries / "containerd"), "--config", str(node.state / "containerd.toml")]
    path = {"PATH": f"{binaries}:/usr/sbin:/usr/bin:/sbin:/bin"}
    processes.start(node.cluster, f"{node.name}-containerd", argv, node.netns, path)
    wait_runtime(node, binaries)


def wait_runtime(node: Node, binaries: Path) -> None:
    """Until containerd answers."""
    ctr = (binaries / "ctr", "--address", node.containerd_socket, "version")

    def answers() -> bool:
        processes.must_live(node.cluster, f"{node.name}-containerd")
        return "Server:" in run(*ctr, check=False)

    wait_until(f"containerd of {node.name} answers", answers, 30)


def start_kubelet(node: Node, binaries: Path) -> None:
    """kubelet and kube-proxy."""
    config = kubeconfig(node.cluster, node.name)
    processes.start(node.cluster, f"{node.name}-kubelet", [
        str(binaries / "kubelet"), f"--config={node.state / 'kubelet.yaml'}", f"--kubeconfig={config}",
        f"--hostname-override={node.name}", f"--node-ip={node.ip}", f"--root-dir={node.state / 'kubelet'}",
        f"--cert-dir={node.state / 'kubelet' / 'pki'}",
    ], node.netns)  # fmt: skip
    processes.start(node.cluster, f"{node.name}-kube-proxy", [
        str(binaries / "kube-proxy"), f"--config={node.state / 'kube-proxy.yaml'}", f"--hostname-override={node.name}",
    ], node.netns)  # fmt: skip


def start_policy_engine(node: Node, binaries: Path) -> None:
    """kube-router's firewall; it exits when its Node object does not exist yet, so it is started after Ready."""
    processes.start(node.cluster, f"{node.name}-kube-router", [
        str(binaries / "kube-router"), "--run-router=false", "--run-service-proxy=false", "--run-firewall=true",
        f"--kubeconfig={kubeconfig(node.cluster, 'kube-router')}", f"--hostname-override={node.name}",
        "--health-port=0", "--metrics-port=0", "--run-loadbalancer=false",
    ], node.netns, {"NODE_NAME": node.name})  # fmt: skip


def part(node: Node, name: str) -> str:
    """Process name of a part of a node."""
    return f"{node.name}-{name}"


def _make_cgroups(record: Record, node: Node) -> None:
    record.add("cgroup", node.cgroup)
    for hierarchy in sorted(path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()):
        root = hierarchy / node.cgroup
        try:
            root.mkdir(exist_ok=True)
        except OSError:
            continue  # a hierarchy that takes no groups (an empty named one)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / name).exists():  # a v1 cpuset group starts empty and takes no process
                (root / name).write_text((hierarchy / name).read_text())


def _cni(node: Node) -> dict[str, object]:
    ranges = [[{"subnet": node.pod_cidr}]]
    return {
        "cniVersion": "1.0.0", "name": "agentrun-test",
        "plugins": [
            {
                "type": "bridge", "bridge": "cni0", "isDefaultGateway": True, "ipMasq": False, "hairpinMode": True,
                "ipam": {"type": "host-local", "ranges": ranges, "dataDir": str(node.state / "cni" / "data")},
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }  # fmt: skip


def _containerd(node: Node, binaries: Path) -> str:
    return f"""version = 3
root = "{node.state / "containerd"}"
state = "{node.runtime / "containerd"}"
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = "{node.containerd_socket}"

[ttrpc]
address = "{node.runtime / "containerd.ttrpc"}"

[debug]
level = "warn"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
disable_apparmor = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{binaries / "cni"}"]
conf_dir = "{node.state / "cni" / "conf"}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{binaries / "runc"}"
SystemdCgroup = false
"""


def _kubelet(node: Node) -> dict[str, object]:
    pki = state_dir(node.cluster) / "pki"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": node.ip, "port": 10250, "healthzBindAddress": "127.0.0.1",
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                           "x509": {"clientCAFile": str(pki / "ca.crt")}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / f"{node.name}.crt"), "tlsPrivateKeyFile": str(pki / f"{node.name}.key"),
        "containerRuntimeEndpoint": f"unix://{node.containerd_socket}",
        "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{node.cgroup}", "failCgroupV1": False, "failSwapOn": False,
        "clusterDNS": [DNS_IP], "clusterDomain": DOMAIN, "resolvConf": str(node.state / "resolv.conf"),
        "podLogsDir": str(node.state / "pod-logs"), "volumePluginDir": str(node.state / "volume-plugins"),
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        "serializeImagePulls": False, "registryPullQPS": 0, "eventRecordQPS": 0,
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
        "nodeStatusUpdateFrequency": "2s", "nodeLeaseDurationSeconds": 8,
        "syncFrequency": "10s", "maxPods": 200, "makeIPTablesUtilChains": True,
    }  # fmt: skip


def _kube_proxy(node: Node) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables",
        "clientConnection": {"kubeconfig": str(kubeconfig(node.cluster, "kube-proxy"))},
        "clusterCIDR": POD_CIDR, "bindAddress": "0.0.0.0", "healthzBindAddress": "127.0.0.1:10256",
        # The kernel's limit is the host's, and this is a guest in it.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"syncPeriod": "30s", "minSyncPeriod": "100ms"},
    }  # fmt: skip
