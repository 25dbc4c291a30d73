"""RSS: memory of the embedded process idle and with 1,000 AgentRuns in the cluster (first cut of P6)."""

import asyncio
import time
from pathlib import Path
from typing import Any

from tests.bench.figure import Figure, say
from tests.bench.installed import MANIFESTS, installed_chart, tenant
from tests.cluster.fixtures import Kubectl
from tests.cluster.shell import ClusterError
from tests.e2e.conftest import Processes

from agentrun.kube import KubeClient
from agentrun.kube.resources import RUNS

Object = dict[str, Any]
COUNT = 1000
AT_ONCE = 16
TARGET_KIB = 12.0


def measure() -> Figure:
    """KiB per AgentRun that the process keeps once all of them have run and rest."""
    with installed_chart() as kubectl, tenant(kubectl) as team:
        pid = Processes(kubectl).pid(Processes(kubectl).pods("agentrun")[0])
        team.apply(MANIFESTS / "no-tools.yaml")
        team.wait("agentrun/no-tools", "condition=Finished", 60)
        idle = _settled(pid)
        began = time.monotonic()
        asyncio.run(_create(team))
        _finished(team)
        seconds = time.monotonic() - began
        full = _settled(pid)
    each = (full - idle) / COUNT
    numbers = f"idle {idle} KiB, with {COUNT} finished AgentRuns {full} KiB"
    say(f"RSS {numbers}: {each:.1f} KiB each; they took {seconds:.0f} s")
    raw = {"idle_kib": idle, "with_runs_kib": full, "runs": COUNT, "seconds": round(seconds, 1)}
    return Figure("RSS", each, "<=", TARGET_KIB, raw)


async def _create(team: Kubectl) -> None:
    slots = asyncio.Semaphore(AT_ONCE)
    async with await KubeClient.connect(team.kubeconfig) as kube:

        async def one(number: int) -> None:
            body = {
                "apiVersion": "agentrun.dev/v1alpha1",
                "kind": "AgentRun",
                "metadata": {"name": f"many-{number}"},
                "spec": {"definitionRef": {"name": "no-tools"}, "input": {"text": f"go {number}"}},
            }
            async with slots:
                await kube.create(RUNS, body, team.namespace)

        await asyncio.gather(*(one(number) for number in range(COUNT)))


def _finished(team: Kubectl) -> None:
    end = time.monotonic() + 600
    while time.monotonic() < end:
        states = [run.get("status", {}).get("state") for run in team.items("agentruns")]
        if len(states) > COUNT and set(states) == {"completed"}:
            return
        time.sleep(3)
    raise ClusterError(f"{COUNT} runs did not complete within ten minutes")


def _settled(pid: int) -> int:
    """VmRSS in KiB, the least of ten looks over ten seconds."""
    looks: list[int] = []
    for _ in range(10):
        time.sleep(1)
        status = Path(f"/proc/{pid}/status").read_text()
        looks.append(int(status.partition("VmRSS:")[2].split()[0]))
    return min(looks)
