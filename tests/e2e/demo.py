"""`make demo`: install, apply the example, watch it, show what came out."""

import os
import subprocess
import sys
import time

from tests.cluster.__main__ import uses_kind
from tests.cluster.binaries import binaries_path
from tests.cluster.config import kubeconfig_path
from tests.cluster.fixtures import Kubectl
from tests.cluster.shell import ClusterError
from tests.e2e.install import ROOT, install

NAMESPACE = "agentrun-demo"
RUN = "fix-the-test"
PLUGIN = "from agentrun.cli.main import kubectl_agentrun; kubectl_agentrun()"


def main() -> int:
    """Returns 0 when the fix was verified."""
    program = binaries_path() / "kubectl"
    given = os.environ.get("AGENTRUN_KUBECONFIG")
    kubectl = Kubectl(
        kubeconfig_path() if not given else kubeconfig_path().__class__(given),
        program=str(program) if program.exists() and not uses_kind() else "kubectl",
    )
    say("installing the charts")
    install(kubectl)
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s", timeout=150)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
    tenant = kubectl.of(NAMESPACE)
    say("kubectl apply -f examples/01-fix-a-failing-test/")
    print(tenant("apply", "-f", str(ROOT / "examples/01-fix-a-failing-test")))
    _watch(tenant)
    print(tenant("get", "agentrun", RUN))
    for verb in (["explain", RUN], ["artifacts", RUN], ["artifacts", RUN, "diff"]):
        say("kubectl agentrun " + " ".join(verb))
        _plugin(kubectl, *verb)
    status = tenant.json("get", "agentrun", RUN)["status"]
    say(f"{status['reason']}: {status['result']['summary']}")
    return 0 if status["reason"] == "Verified" else 1


def say(text: str) -> None:
    """Progress for a person."""
    print(f"\n=== {text}", flush=True)


def _watch(tenant: Kubectl) -> None:
    shown, end = "", time.monotonic() + 300
    while time.monotonic() < end:
        status = tenant.json("get", "agentrun", RUN).get("status") or {}
        line = f"{status.get('state', '')} {status.get('reason', '')} {status.get('waitingOn', '')}".strip()
        if line != shown:
            print(f"    {line}", flush=True)
            shown = line
        if status.get("state") in ("completed", "failed"):
            return
        time.sleep(0.2)
    raise ClusterError("the run did not finish within five minutes")


def _plugin(kubectl: Kubectl, *verb: str) -> None:
    environment = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig)}
    command = [sys.executable, "-c", PLUGIN, "-n", NAMESPACE, *verb]
    subprocess.run(command, env=environment, check=True, timeout=60)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ClusterError as error:
        sys.exit(f"demo: {error}")
