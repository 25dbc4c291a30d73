"""P4 (cold): from `apply` of an AgentRun to its first tool answered, beside a bare Pod that serves static HTTP.

The bare Pod is the run's own Pod, copied: same images, init container, security context, volumes and policies; only
its command is a web server, and nobody of ours has a hand in it.
"""

import asyncio
import copy
import statistics
import time
from typing import Any

import httpx2
from tests.bench.figure import Figure, say
from tests.bench.installed import MANIFESTS, installed_chart, tenant
from tests.cluster.fixtures import Kubectl
from tests.cluster.shell import ClusterError
from tests.e2e.plugin import Plugin

from agentrun.kube import KubeClient
from agentrun.kube.resources import PODS, POLICIES, RUNS
from agentrun.tools.podip import CONNECT_SECONDS

Object = dict[str, Any]
ROUNDS = 9
TARGET = 1.15
PORT = 7070
SECONDS = 60
REST_SECONDS = 4  # what ended before must not burden what begins: teardown, garbage collection, the policy engine
SERVE = ["/bin/busybox", "httpd", "-f", "-p", str(PORT), "-h", "/workspace"]


def measure() -> Figure:
    """Medians of rounds by turns; the first warms up and is dropped."""
    with installed_chart() as kubectl, tenant(kubectl) as team:
        team.apply(MANIFESTS / "busybox.yaml")
        team.wait("agentrun/busybox", "condition=Finished", 120)
        ours, bare = asyncio.run(_rounds(team))
    say(f"P4 to the first tool answered {_median(ours)} ms, a bare Pod to its first page {_median(bare)} ms")
    raw = {"run_seconds": ours, "bare_pod_seconds": bare}
    return Figure("P4", statistics.median(ours) / statistics.median(bare), "<=", TARGET, raw)


def _median(seconds: list[float]) -> int:
    return round(statistics.median(seconds) * 1000)


async def _rounds(team: Kubectl) -> tuple[list[float], list[float]]:
    ours: list[float] = []
    bare: list[float] = []
    async with await KubeClient.connect(team.kubeconfig) as kube:
        for number in range(ROUNDS + 1):
            seconds, pod = await _run(kube, team, f"cold-{number}")
            ours.append(seconds)
            await asyncio.sleep(REST_SECONDS)
            bare.append(await _bare(kube, team, pod, f"bare-{number}"))
            await asyncio.sleep(REST_SECONDS)
    return ours[1:], bare[1:]


async def _run(kube: KubeClient, team: Kubectl, name: str) -> tuple[float, Object]:
    """Seconds by one clock: ours before the request, the journal's at the answer. And the run's Pod."""
    body = {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "AgentRun",
        "metadata": {"name": name},
        "spec": {"definitionRef": {"name": "busybox"}, "input": {"text": "go"}},
    }
    began = time.time()
    run = await kube.create(RUNS, body, team.namespace)
    pod = await _pod_of(kube, team, run["metadata"]["uid"])
    await asyncio.to_thread(team.wait, f"agentrun/{name}", "condition=Finished", 60)
    events = await asyncio.to_thread(Plugin(team.kubeconfig, str(team.namespace)).lines, "events", name)
    answered = next(event["recordedAt"] for event in events if event["kind"] == "ToolCompleted")
    await asyncio.to_thread(team.wait, f"agentrun/{name}", "condition=Quiescent", 60)
    return answered / 1_000_000 - began, pod


async def _pod_of(kube: KubeClient, team: Kubectl, uid: str) -> Object:
    async with asyncio.timeout(SECONDS):
        while True:
            pods, _ = await kube.list(PODS, team.namespace, f"agentrun.dev/run-uid={uid}")
            if pods:
                return pods[0]
            await asyncio.sleep(0.02)


async def _bare(kube: KubeClient, team: Kubectl, pod: Object, name: str) -> float:
    """Seconds from the Pod's creation to its first page, dialled until it answers as the harness does."""
    copied = _copy(pod, name)
    began = time.time()
    made = await kube.create(PODS, copied, team.namespace)
    await kube.create(POLICIES, _let_us_in(name, made["metadata"]["uid"]), team.namespace)
    try:
        async with asyncio.timeout(SECONDS):
            address = await _address(kube, team, made)
            await _page(f"http://{address}:{PORT}/")
            return time.time() - began
    except TimeoutError:
        raise ClusterError(f"the bare Pod {name} served nothing within {SECONDS} s") from None
    finally:
        await kube.delete(PODS, name, team.namespace, grace=0)


def _copy(pod: Object, name: str) -> Object:
    spec = copy.deepcopy(pod["spec"])
    for field in ("nodeName", "serviceAccount", "priority", "preemptionPolicy"):
        spec.pop(field, None)
    sandbox = spec["containers"][0]
    sandbox["command"] = SERVE
    labels = {**pod["metadata"]["labels"], "agentrun.dev/run-uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def _let_us_in(name: str, uid: str) -> Object:
    """The run's own allowance, but for where the caller sits: beside the control plane."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {
            "podSelector": {"matchLabels": {"agentrun.dev/run-uid": name}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"ipBlock": {"cidr": "10.240.0.0/16"}}], "ports": [{"protocol": "TCP", "port": PORT}]}
            ],
        },
    }


async def _address(kube: KubeClient, team: Kubectl, made: Object) -> str:
    """By a watch, as the operator learns it."""
    version = made["metadata"]["resourceVersion"]
    labels = f"agentrun.dev/run-uid={made['metadata']['name']}"
    async with kube.watch(PODS, version, namespace=team.namespace, labels=labels) as events:
        async for event in events:
            status: Object = event["object"].get("status") or {}
            states = status.get("containerStatuses") or []
            if status.get("podIP") and any("running" in state["state"] for state in states):
                return str(status["podIP"])
    raise ClusterError("the watch on the bare Pod ended before it ran")


async def _page(url: str) -> None:
    """Dialled as the harness dials."""
    pause = 0.02
    async with httpx2.AsyncClient(timeout=httpx2.Timeout(5.0, connect=CONNECT_SECONDS)) as client:
        while True:
            try:
                await client.get(url)
            except httpx2.TransportError:
                await asyncio.sleep(pause)
                pause = min(0.5, pause * 2)
            else:
                return
