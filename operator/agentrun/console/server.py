"""The console's process: the read API over HTTPS, reached through the API server's service proxy."""

import asyncio
from datetime import UTC, datetime

import structlog

from agentrun.broker.keys import new_keys, server_certificate
from agentrun.broker.serving import serving, tls_context
from agentrun.console.app import ReadApi
from agentrun.console.tenants import Tenants
from agentrun.console.viewers import Viewers
from agentrun.journal.port import Journal
from agentrun.kube import KubeClient
from agentrun.settings import Settings

_log = structlog.get_logger()


async def run_console(settings: Settings, journal: Journal, stop: asyncio.Event, kube: KubeClient) -> None:
    """Serve until `stop`. Raises CannotListen."""
    api = ReadApi(journal, Viewers(kube.token_review), Tenants(kube), stop)
    names = (f"agentrun-read.{settings.operator_namespace}.svc", "agentrun-read")
    tls = tls_context(*server_certificate(new_keys(datetime.now(UTC)), names, datetime.now(UTC)))
    async with serving(api.application(), "0.0.0.0", settings.read_port, tls) as port:  # noqa: S104 - a Pod's own port
        _log.info("read_api", port=port)
        await stop.wait()
