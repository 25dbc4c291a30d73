"""What sandboxes are born with: the broker's public keys, and what their guard must find closed."""

import asyncio
import contextlib
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agentrun.controller.pod import GuardTargets, PublicKey, public_keys
from agentrun.kube import KubeClient, NotFound
from agentrun.kube.reading import member
from agentrun.kube.resources import CONFIG_MAPS, PODS

Object = dict[str, Any]
BROKER = "agentrun-broker"
HEALTH_PORT = 8081
TTL_SECONDS = 20.0
REACH_SECONDS = 1.0


class BrokerNotReady(Exception):
    """The broker has not published its keys yet: no sandbox can be born."""


class BirthFacts:
    """Read again every 20 s."""

    def __init__(self, kube: KubeClient, operator_namespace: str) -> None:
        self._kube = kube
        self._namespace = operator_namespace
        self._read_at = float("-inf")
        self._keys: tuple[PublicKey, ...] = ()
        self._denied: tuple[str, ...] = ()
        self._api = ""

    async def keys(self) -> tuple[PublicKey, ...]:
        """Raises BrokerNotReady."""
        await self._refresh()
        if not self._keys:
            raise BrokerNotReady(f"the broker has not published its keys in ConfigMap {self._namespace}/{BROKER} yet")
        return self._keys

    async def targets(self, tolerate: tuple[str, ...]) -> GuardTargets:
        """What a sandbox's guard tries: the API server, its node, the broker's health port just reached from here."""
        await self._refresh()
        return GuardTargets(denied=self._denied, api=self._api, allowed=(), node=True, tolerate=tolerate)

    async def _refresh(self) -> None:
        if time.monotonic() - self._read_at < TTL_SECONDS and self._keys:
            return
        with contextlib.suppress(NotFound):
            found = await self._kube.get(CONFIG_MAPS, BROKER, self._namespace)
            self._keys = public_keys(msgspec.json.decode(found["data"]["keys.json"]))
        self._denied = await self._reached()
        self._api = await _api_server(self._kube.access.server)
        self._read_at = time.monotonic()

    async def _reached(self) -> tuple[str, ...]:
        """A dead target would prove nothing: only what answers from here is given to the guard."""
        pods, _ = await self._kube.list(PODS, self._namespace, f"app.kubernetes.io/name={BROKER}")
        ips = [pod["status"]["podIP"] for pod in pods if member(pod, "status").get("podIP")]
        found = await asyncio.gather(*(_answers(ip) for ip in ips))
        return tuple(_target(ip, HEALTH_PORT) for ip, answers in zip(ips, found, strict=True) if answers)


async def _api_server(url: str) -> str:
    """A sandbox resolves no names, so the guard is given an address."""
    server = urlsplit(url)
    host, port = server.hostname or "", server.port or (443 if server.scheme == "https" else 80)
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return _target(str(found[0][4][0]), port)


def _target(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


async def _answers(ip: str) -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(ip, HEALTH_PORT), REACH_SECONDS)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
