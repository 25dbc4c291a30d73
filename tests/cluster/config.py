"""Names, addresses and places of the test cluster."""

import os
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("AGENTRUN_CACHE", Path.home() / ".cache" / "agentrun"))
KUBERNETES_VERSION = "v1.36.3"
MARK = "AGENTRUN_TEST_CLUSTER"  # environment of every process we start: how a later start knows what is ours

CONTROL_PLANE_IP = "10.240.0.1"
POD_CIDR = "10.241.0.0/16"
SERVICE_CIDR = "10.242.0.0/24"
API_SERVICE_IP = "10.242.0.1"
DNS_IP = "10.242.0.10"
API_PORT = 6443
ETCD_PORT = 2379
DOMAIN = "cluster.local"


@dataclass(frozen=True)
class Node:
    """One node: a network namespace behind a veth pair, with its own runtime and cgroup root."""

    index: int
    cluster: str

    @property
    def name(self) -> str:
        """Kubernetes name of the node."""
        return f"node-{self.index}"

    @property
    def netns(self) -> str:
        """Its network namespace."""
        return f"agentrun-{self.cluster}-{self.index}"

    @property
    def link(self) -> str:
        """Our end of its veth pair (15 characters at most)."""
        return f"ar-{self.cluster[:7]}-{self.index}"

    @property
    def host_ip(self) -> str:
        """Address of our end."""
        return f"10.240.{self.index}.1"

    @property
    def ip(self) -> str:
        """Address of the node."""
        return f"10.240.{self.index}.2"

    @property
    def pod_cidr(self) -> str:
        """Range its Pods get addresses from."""
        return f"10.241.{self.index}.0/24"

    @property
    def state(self) -> Path:
        """What lives as long as the cluster."""
        return state_dir(self.cluster) / self.name

    @property
    def runtime(self) -> Path:
        """Sockets and mounts; short, since a socket's path may have 107 bytes."""
        return runtime_dir(self.cluster) / self.name

    @property
    def cgroup(self) -> str:
        """Its cgroup, in every hierarchy."""
        return f"agentrun-{self.cluster}-{self.index}"

    @property
    def containerd_socket(self) -> Path:
        """The runtime's socket."""
        return self.runtime / "containerd.sock"


def state_dir(cluster: str) -> Path:
    """Where a cluster's files are."""
    return CACHE / "cluster" / cluster


def runtime_dir(cluster: str) -> Path:
    """Where a cluster's sockets are."""
    return Path("/run") / f"agentrun-{cluster}"


def kubeconfig_path(cluster: str = "default") -> Path:
    """The administrator's kubeconfig."""
    return state_dir(cluster) / "kubeconfig"


def nodes(cluster: str) -> list[Node]:
    """Both nodes."""
    return [Node(1, cluster), Node(2, cluster)]
