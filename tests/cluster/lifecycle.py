"""Up, down, healthy: one cluster by name, whoever started it."""

import fcntl
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import addons, controlplane, network, node, processes, resources
from tests.cluster.binaries import COMPONENTS, binaries_path, build
from tests.cluster.config import CACHE, HERE, Node, kubeconfig_path, nodes, runtime_dir, state_dir
from tests.cluster.resources import Record
from tests.cluster.selfcheck import SelfCheck
from tests.cluster.shell import ClusterError, run, wait_until

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


def say(text: str) -> None:
    """Progress for a person."""
    print(f"cluster: {text}", flush=True)


@contextmanager
def locked(cluster: str) -> Iterator[None]:
    """One start or stop at a time, on the whole machine."""
    path = CACHE / "cluster" / f"{cluster}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def up(cluster: str = "default") -> Path:
    """A checked, running cluster; returns its kubeconfig. One that runs and is healthy is used as it is."""
    ensure(cluster)
    return kubeconfig_path(cluster)


def ensure(cluster: str = "default") -> bool:
    """As `up`; whether this call started it, told under the lock: two test runs may ask at the same moment."""
    with locked(cluster):
        binaries = build()
        if _usable(cluster):
            say(f"{cluster} is running")
            return False
        _clean(cluster)
        began = time.monotonic()
        try:
            _start(cluster, binaries)
        except SelfCheckFailed as error:
            _keep_logs(cluster)
            resources.clean(cluster)
            say(f"the self-check failed ({error}); once more, from nothing")
            _start_or_clean(cluster, binaries)
        except BaseException:
            say(f"the start failed; logs: {_keep_logs(cluster)}")
            resources.clean(cluster)
            raise
        say(f"{cluster} is up after {time.monotonic() - began:.1f} s, self-check passed")
        return True


class SelfCheckFailed(ClusterError):
    """Everything runs and something does not work: a busy machine, or a policy engine that is dead."""


def _start_or_clean(cluster: str, binaries: Path) -> None:
    try:
        _start(cluster, binaries)
    except BaseException:
        say(f"the start failed again; logs: {_keep_logs(cluster)}")
        resources.clean(cluster)
        raise


def _keep_logs(cluster: str) -> Path:
    """A failed start's logs, out of the way of the next one."""
    import shutil

    kept = state_dir(cluster).with_name(f"{cluster}-failed-logs")
    shutil.rmtree(kept, ignore_errors=True)
    if (state_dir(cluster) / "logs").exists():
        shutil.copytree(state_dir(cluster) / "logs", kept)
    return kept


def down(cluster: str = "default") -> None:
    """End it and take away everything it made outside its cache of images and binaries."""
    with locked(cluster):
        _clean(cluster)
        import shutil

        shutil.rmtree(state_dir(cluster), ignore_errors=True)
        say(f"{cluster} is down")


def healthy(cluster: str = "default") -> bool:
    """Every process alive, the API server ready, both nodes Ready."""
    names = [*CONTROL_PLANE, *(node.part(n, name) for n in nodes(cluster) for name in node.PARTS)]
    if not kubeconfig_path(cluster).exists() or not all(processes.alive(cluster, name) for name in names):
        return False
    return ready_nodes(cluster) == len(nodes(cluster))


def ready_nodes(cluster: str) -> int:
    """How many nodes are Ready."""
    kubectl = (binaries_path() / "kubectl", f"--kubeconfig={kubeconfig_path(cluster)}")
    out = run(*kubectl, "get", "nodes", "-o", "json", check=False, timeout=20)
    items = json.loads(out)["items"] if out.startswith("{") else []
    ready = {"type": "Ready", "status": "True"}
    return sum(any(ready.items() <= c.items() for c in item["status"].get("conditions", [])) for item in items)


def _usable(cluster: str) -> bool:
    return _identity_path(cluster).exists() and _identity_path(cluster).read_text() == _identity() and healthy(cluster)


def _identity_path(cluster: str) -> Path:
    return state_dir(cluster) / "identity"


def _identity() -> str:
    """A running cluster is used again only if it was started by the same scripts and binaries."""
    parts = (HERE / f"{name}.py" for name in ("config", "network", "controlplane", "node", "addons", "pki"))
    sources = b"".join(path.read_bytes() for path in parts)
    return hashlib.sha256(sources + str(binaries_path()).encode()).hexdigest()


def _clean(cluster: str) -> None:
    found = resources.clean(cluster)
    if found:
        say("cleaned what an earlier start left: " + ", ".join(found))


def _start(cluster: str, binaries: Path) -> None:
    import shutil

    shutil.rmtree(state_dir(cluster), ignore_errors=True)
    record = Record(cluster)
    record.add("path", str(runtime_dir(cluster)))
    for name in COMPONENTS:
        if not (binaries / name).exists():
            raise ClusterError(f"missing binary {name} in {binaries}: delete the folder and start again")
    network.host_network(record)
    network.remember_sysctls(record)
    controlplane.make_certificates(cluster)
    for one in nodes(cluster):
        network.node_network(record, one)
        node.prepare(record, one, binaries)
        node.start_runtime(one, binaries)
    controlplane.start(cluster, binaries)
    addons.load_base_images(cluster, binaries)
    addons.prepare_volumes(record, cluster)
    kubectl = (binaries / "kubectl", f"--kubeconfig={kubeconfig_path(cluster)}")
    run(*kubectl, "apply", "--server-side", "-f", "-", data=addons.manifests(cluster))
    for one in nodes(cluster):
        start_node(one, binaries)
    try:
        SelfCheck(cluster, binaries, kubeconfig_path(cluster)).run()
    except ClusterError as error:
        raise SelfCheckFailed(str(error)) from error
    _identity_path(cluster).write_text(_identity())


def start_node(one: Node, binaries: Path) -> None:
    """kubelet, kube-proxy and, once the node is Ready, the policy engine."""
    node.start_kubelet(one, binaries)
    wait_node_ready(one, binaries)
    node.start_policy_engine(one, binaries)


def wait_node_ready(one: Node, binaries: Path, seconds: float = 60) -> None:
    """Bounded; a kubelet that has ended is told with the end of its log."""
    kubectl = (binaries / "kubectl", f"--kubeconfig={kubeconfig_path(one.cluster)}")
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"

    def ready() -> bool:
        processes.must_live(one.cluster, node.part(one, "kubelet"))
        return run(*kubectl, "get", "node", one.name, "-o", path, check=False, timeout=20) == "True"

    wait_until(f"{one.name} is Ready", ready, seconds)
