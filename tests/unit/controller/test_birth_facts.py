"""What a sandbox is born with: keys of the broker, and targets its guard can really judge (R20, C28)."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.controller.apiserver import ApiServer

from agentrun.controller import birth_facts
from agentrun.controller.birth_facts import BirthFacts, BrokerNotReady
from agentrun.controller.pod import PublicKey
from agentrun.kube import KubeClient
from agentrun_sandbox.guard import parse_target

Object = dict[str, Any]
SYSTEM = "/api/v1/namespaces/agentrun-system"


def publish(api: ApiServer, kid: str) -> None:
    data = {"keys.json": f'[{{"kid": "{kid}", "publicKey": "cHVi", "notAfter": 0}}]'}
    api.put(f"{SYSTEM}/configmaps/agentrun-broker", {"metadata": {"name": "agentrun-broker"}, "data": data})


def broker_pod(api: ApiServer, name: str, **status: str) -> None:
    labels = {"app.kubernetes.io/name": "agentrun-broker"}
    api.put(f"{SYSTEM}/pods/{name}", {"metadata": {"name": name, "labels": labels}, "status": status})


@asynccontextmanager
async def answering(monkeypatch: pytest.MonkeyPatch, host: str = "127.0.0.1") -> AsyncGenerator[int]:
    """A health port that answers."""

    def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(accept, host, 0)
    port = int(server.sockets[0].getsockname()[1])
    monkeypatch.setattr(birth_facts, "HEALTH_PORT", port)
    async with server:
        yield port


def facts(kube: KubeClient) -> BirthFacts:
    return BirthFacts(kube, "agentrun-system")


async def test_without_published_keys_no_sandbox_can_be_born(kube: KubeClient) -> None:
    with pytest.raises(BrokerNotReady, match="agentrun-system/agentrun-broker"):
        await facts(kube).keys()


async def test_keys_are_those_of_the_brokers_config_map(api: ApiServer, kube: KubeClient) -> None:
    publish(api, "k1")
    assert await facts(kube).keys() == (PublicKey("k1", "cHVi"),)


async def test_keys_are_read_again_after_a_while_and_not_for_every_sandbox(
    api: ApiServer, kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(api, "k1")
    found = facts(kube)
    await found.keys()
    asked = len(api.asked)
    publish(api, "k2")
    assert [key.kid for key in await found.keys()] == ["k1"]
    await found.targets(())
    assert len(api.asked) == asked
    monkeypatch.setattr(birth_facts, "TTL_SECONDS", 0.0)
    assert [key.kid for key in await found.keys()] == ["k2"]


async def test_keys_just_published_are_found_at_once(api: ApiServer, kube: KubeClient) -> None:
    found = facts(kube)
    with pytest.raises(BrokerNotReady):
        await found.keys()
    publish(api, "k1")
    assert await found.keys()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_only_a_broker_that_answers_from_here_is_a_target_that_proves_something_C28(
    api: ApiServer, kube: KubeClient, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    publish(api, "k1")
    async with answering(monkeypatch, host) as port:
        broker_pod(api, "a", podIP=host)
        broker_pod(api, "b", podIP="127.0.0.2")  # nothing listens there
        broker_pod(api, "c")
        targets = await facts(kube).targets(("NodeIP",))
    assert targets.denied == (f"[{host}]:{port}" if ":" in host else f"{host}:{port}",)
    assert targets.node
    assert targets.tolerate == ("NodeIP",)


@pytest.mark.parametrize(
    ("server", "target"),
    [
        ("https://192.0.2.1:6443", "192.0.2.1:6443"),
        ("https://192.0.2.1", "192.0.2.1:443"),
        ("https://[fd00::1]:6443", "[fd00::1]:6443"),
        ("https://[fd00::1]", "[fd00::1]:443"),
        ("http://localhost:8080", "127.0.0.1:8080"),  # nothing resolves in a sandbox
    ],
)
async def test_the_api_server_is_an_address_as_the_guard_reads_it(
    api: ApiServer, kube: KubeClient, monkeypatch: pytest.MonkeyPatch, server: str, target: str
) -> None:
    publish(api, "k1")
    monkeypatch.setattr(kube, "access", dataclasses.replace(kube.access, server=server))
    found = (await facts(kube).targets(())).api
    assert found in (target, target.replace("127.0.0.1", "[::1]"))
    assert parse_target(found)[1][1] == int(target.rpartition(":")[2])
