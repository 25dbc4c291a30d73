"""Installs the charts on the test cluster with freshly built images: what the demo and the e2e suite run."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.cluster.binaries import binaries_path
from tests.cluster.fixtures import Kubectl
from tests.cluster.shell import ClusterError, run, wait_until

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "agentrun-system"
RETRIED = (
    "There can be a delay",
    "no matches for kind",
    "storage is (re)initializing",
    "ensure CRDs are installed",
    "being deleted",
)


def helm(kubeconfig: Path, *arguments: str, timeout: float = 240) -> str:
    """Run helm; the cluster's own build of it where there is one."""
    program = binaries_path() / "helm"
    return run(program if program.exists() else "helm", f"--kubeconfig={kubeconfig}", *arguments, timeout=timeout)


def build_images() -> dict[str, Any]:
    """Build what is missing and load everything into the cluster; `{name: {reference, …}}`."""
    command = [sys.executable, str(ROOT / "sandbox-images" / "build.py"), "--load", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise ClusterError("the images could not be built")
    built: dict[str, Any] = json.loads(done.stdout)
    return built


def install(kubectl: Kubectl, *settings: str) -> None:
    """Install or upgrade both charts, and wait until every process is ready."""
    images = build_images()
    registry, _, product = images["agentrun"]["reference"].rpartition("/")
    repository, _, tag = product.partition(":")
    server, _, server_tag = images["tool-server"]["reference"].rpartition("/")[2].partition(":")
    values = [
        f"image.registry={registry}", f"image.repository={repository}", f"image.tag={tag}",
        f"toolServer.repository={server}", f"toolServer.tag={server_tag}", *settings,
    ]  # fmt: skip
    flags = [part for value in values for part in ("--set", value)]
    _adopt(kubectl)
    _helm_retried(kubectl.kubeconfig, "upgrade", "--install", "agentrun-crds", str(ROOT / "charts/agentrun-crds"))
    wait_until("the CRDs are served", lambda: _served(kubectl), 60, every=0.5)
    where = ("-n", NAMESPACE, "--create-namespace")
    _helm_retried(kubectl.kubeconfig, "upgrade", "--install", "agentrun", str(ROOT / "charts/agentrun"), *where, *flags)
    for workload in kubectl.of(NAMESPACE)("get", "statefulset,deployment", "-o", "name").split():
        kubectl.of(NAMESPACE)("rollout", "status", workload, "--timeout=120s", timeout=150)


def uninstall(kubectl: Kubectl) -> None:
    """Take the charts away; the CRDs stay, with every run (their chart says so)."""
    for name in ("agentrun", "agentrun-crds"):
        helm(kubectl.kubeconfig, "uninstall", name, *(("-n", NAMESPACE) if name == "agentrun" else ()))


def _helm_retried(kubeconfig: Path, *arguments: str) -> None:
    """A CRD made seconds ago refuses writes for up to half a minute."""
    end = time.monotonic() + 90
    while True:
        try:
            helm(kubeconfig, *arguments)
        except ClusterError as error:
            if time.monotonic() > end or not any(word in str(error) for word in RETRIED):
                raise
            time.sleep(2)
        else:
            return


def _served(kubectl: Kubectl) -> bool:
    return "agentruns" in kubectl("api-resources", "--api-group=agentrun.dev", "-o", "name", check=False)


def _adopt(kubectl: Kubectl) -> None:
    """CRDs and policies that another test applied by hand become the chart's: helm refuses what it does not own."""
    found = kubectl("get", "crd", "-o", "name").split()
    for kind in ("validatingadmissionpolicy", "mutatingadmissionpolicy"):
        found += kubectl("get", f"{kind},{kind}binding", "-o", "name", check=False).split()
    ours = [name for name in found if "agentrun" in name]
    if ours:
        kubectl("annotate", "--overwrite", *ours, "meta.helm.sh/release-name=agentrun-crds",
                "meta.helm.sh/release-namespace=default")  # fmt: skip
        kubectl("label", "--overwrite", *ours, "app.kubernetes.io/managed-by=Helm")
