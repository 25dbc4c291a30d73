"""uvicorn as part of a process that owns its loop and its signals."""

import asyncio
import contextlib
import socket
import ssl
import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from agentrun.core.errors import AgentrunError

GRACE_SECONDS = 15
KEEP_ALIVE_SECONDS = 75  # longer than any client of ours keeps an idle connection: the client closes first


class CannotListen(AgentrunError):
    """The port is taken or may not be bound; the message names it and the fix."""


class _Server(uvicorn.Server):
    """Leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def tls_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """A server context of a certificate and key that stand nowhere on disk but for this moment."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory(prefix="agentrun-") as folder:
        path = Path(folder) / "server.pem"
        path.touch(mode=0o600)
        path.write_bytes(key + certificate)
        context.load_cert_chain(path)
    return context


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024, dualstack_ipv6=host == "::")
    except OSError as error:
        said = f"cannot listen on port {port}: {error.strerror or error}"
        raise CannotListen(
            f"{said}; set AGENTRUN_BROKER_PORT, AGENTRUN_READ_PORT and AGENTRUN_HEALTH_PORT to free ports"
        ) from None


@contextlib.asynccontextmanager
async def serving(app: Starlette, host: str, port: int, tls: ssl.SSLContext | None = None) -> AsyncGenerator[int]:
    """Serve while the block runs; gives the port. On leaving, requests in flight get 15 s to end.

    Raises CannotListen.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )
    server = _Server(config)
    listener = _listener(host, port)
    task = asyncio.create_task(server.serve([listener]))
    try:
        while not server.started:
            if task.done():
                await task
                raise CannotListen(f"nothing serves on port {port}: the server ended while it started")
            await asyncio.sleep(0.01)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        try:
            await task
        finally:
            listener.close()
