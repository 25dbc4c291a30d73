"""Addresses, namespaces and routes: the control plane on the host side, each node behind a veth pair.

With the control plane outside the nodes' namespaces, a default-deny policy closes the API server too.
"""

from pathlib import Path

from tests.cluster.config import CONTROL_PLANE_IP, POD_CIDR, Node
from tests.cluster.resources import Record
from tests.cluster.shell import run

NODE_CIDR = "10.240.0.0/16"
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


def host_network(record: Record) -> None:
    """The control plane's address, and forwarding between the nodes."""
    record.add("address", "lo", f"{CONTROL_PLANE_IP}/32")
    run("ip", "address", "replace", f"{CONTROL_PLANE_IP}/32", "dev", "lo")
    record.add("sysctl", str(FORWARD), FORWARD.read_text())
    FORWARD.write_text("1")
    for cidr in (NODE_CIDR, POD_CIDR):  # a host whose FORWARD chain drops (Docker's does) lets ours through
        record.add("forward", cidr)
        run("iptables", "-w", "-I", "FORWARD", "-s", cidr, "-j", "ACCEPT")
        run("iptables", "-w", "-I", "FORWARD", "-d", cidr, "-j", "ACCEPT")


def remember_sysctls(record: Record) -> None:
    """Kernel settings that kubelets change: put back by `clean`."""
    for name in ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "vm/panic_on_oom"):
        path = Path("/proc/sys") / name
        if path.exists():
            record.add("sysctl", str(path), path.read_text())


def node_network(record: Record, node: Node) -> None:
    """A namespace with a default route to the host side, and the host's route to its Pods."""
    record.add("netns", node.netns)
    run("ip", "netns", "add", node.netns)
    record.add("link", node.link)
    run("ip", "link", "add", node.link, "type", "veth", "peer", "name", "eth0", "netns", node.netns)
    run("ip", "address", "add", f"{node.host_ip}/30", "dev", node.link)
    run("ip", "link", "set", node.link, "up")
    inside = ("ip", "-n", node.netns)
    run(*inside, "address", "add", f"{node.ip}/30", "dev", "eth0")
    run(*inside, "link", "set", "eth0", "up")
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "route", "add", "default", "via", node.host_ip)
    run("ip", "route", "add", node.pod_cidr, "via", node.ip)
    run("nsenter", f"--net=/run/netns/{node.netns}", "sysctl", "-qw", "net.ipv4.ip_forward=1")
