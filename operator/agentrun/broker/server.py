"""The broker as a process: keys, store, watches, HTTPS and probes, until it is told to stop."""

import asyncio
import contextlib
import socket
import sqlite3
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from agentrun.broker.app import Api
from agentrun.broker.callers import Callers
from agentrun.broker.credentials import Credentials
from agentrun.broker.gate import Gate
from agentrun.broker.keys import Keys, server_certificate
from agentrun.broker.keystore import keys_of
from agentrun.broker.kube_reads import KubeReads
from agentrun.broker.live_view import LiveView
from agentrun.broker.metrics import Metrics, probes
from agentrun.broker.model_calls import ModelCalls
from agentrun.broker.redaction import Redactor, capture_others, json_logger
from agentrun.broker.refusal import Refused
from agentrun.broker.service import Broker
from agentrun.broker.serving import serving, tls_context
from agentrun.broker.signing import Signer
from agentrun.broker.watches import Watches
from agentrun.kube import KubeClient
from agentrun.settings import Settings

FLUSH_SECONDS = 1.0
START_RETRY_SECONDS = 2.0


@dataclass(frozen=True)
class Ports:
    """Where a started broker listens."""

    https: int
    health: int


async def run_broker(
    settings: Settings, stop: asyncio.Event, *, started: asyncio.Future[Ports] | None = None, out: TextIO | None = None
) -> None:
    """Serve until `stop` is set. `started` gets the ports; `out` (stderr) gets the log.

    Raises GateUnusable, KeysUnusable, NoCluster, CannotListen: each says what to do.
    """
    redactor = Redactor()
    log = json_logger("broker", redactor, out)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(capture_others(log, redactor))
        kube = await stack.enter_async_context(await KubeClient.connect(settings.kubeconfig))
        reads = KubeReads(kube, settings.operator_namespace)
        gate = await Gate.open(settings.gate_path)
        stack.push_async_callback(gate.close)
        keys = await _keys(reads, settings.operator_namespace, stop, log)
        if keys is None:
            return
        await gate.use_key(keys.current.kid, time.time_ns() // 1000)
        ports = await stack.enter_async_context(_served(settings, kube, reads, keys, gate, redactor, log))
        log.info("started", https=ports.https, health=ports.health, kid=keys.current.kid)
        if started is not None:
            started.set_result(ports)
        await _flushing(gate, stop, log)
        log.info("stopping")


@contextlib.asynccontextmanager
async def _served(
    settings: Settings, kube: KubeClient, reads: KubeReads, keys: Keys, gate: Gate, redactor: Redactor, log: Any
) -> AsyncGenerator[Ports]:
    watches, metrics = Watches(kube, settings.watch_namespaces), Metrics()
    models = ModelCalls(Credentials(reads.secret, redactor))
    signer = Signer(keys.current.kid, keys.current.key)
    broker = Broker(LiveView(watches.of, reads), gate, signer, models)
    api = Api(broker, Callers(reads.review, settings.operator_namespace), log, metrics)
    tls = tls_context(*server_certificate(keys, tls_names(settings.operator_namespace), datetime.now(UTC)))
    host = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104  (a Pod's own addresses)
    tasks = list(watches.tasks())
    try:
        async with (
            serving(probes(metrics, watches.missing), host, settings.health_port) as health,
            serving(api.application(), host, settings.broker_port, tls) as https,
        ):
            yield Ports(https, health)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await models.close()


def tls_names(namespace: str) -> tuple[str, ...]:
    """Names that callers dial: the Service's, and loopback for a process of one zone."""
    service = f"agentrun-broker.{namespace}.svc"
    return (service, f"agentrun-broker.{namespace}", "agentrun-broker", "localhost", "127.0.0.1", "::1")


async def _keys(reads: KubeReads, namespace: str, stop: asyncio.Event, log: Any) -> Keys | None:
    """The keys, as soon as the API server answers; None if told to stop before."""
    while not stop.is_set():
        try:
            return await keys_of(reads, namespace)
        except Refused as refusal:
            log.warning("waiting for the API server", message=refusal.message)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), START_RETRY_SECONDS)
    return None


async def _flushing(gate: Gate, stop: asyncio.Event, log: Any) -> None:
    """Write fences behind until told to stop; a disk that fails is said, and tried again."""
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), FLUSH_SECONDS)
        try:
            await gate.flush()
        except sqlite3.Error as error:
            log.warning("gate not written", error=str(error))
