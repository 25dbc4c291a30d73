"""Adapter of the sandbox port outside the cluster: through the API server's port-forward, over WebSocket.

Two channels per port (`v4.channel.k8s.io`): 0 carries data, 1 an error text; the first frame of each names the port.
The API server's proxy for Pods would be simpler, but it comes from outside the Pod: a default-deny policy drops it.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import aiohttp

from agentrun.kube.access import Access
from agentrun.tools.http11 import Head, read_answer, request_bytes
from agentrun.tools.sandbox import HEADER, PORT, SandboxAnswer, SandboxEndpoint, SandboxUnreachable

PROTOCOL = "v4.channel.k8s.io"
FRAME_BYTES = 256 * 1024
MESSAGE_BYTES = 16 * 1024 * 1024
CLOSE_SECONDS = 2.0
_DATA, _ERROR = 0, 1
_PAUSES = (0.1, 0.2, 0.5, 1.0, 1.0, 2.0)


class _NoAnswer(OSError):
    """The connection ended before the first byte of an answer: nobody listens there (yet)."""


class PortForwardSandbox:
    """One WebSocket for each dispatch, as the caller's Kubernetes user (who needs verb `shell` on the run)."""

    def __init__(self, where: Access, port: int = PORT) -> None:
        self._access = where
        self._port = port

    async def dispatch(
        self, endpoint: SandboxEndpoint, dispatch_jws: str, body: bytes, timeout: float
    ) -> SandboxAnswer:
        """See SandboxPort."""
        request = request_bytes(endpoint.pod_name, {HEADER: dispatch_jws}, body)
        try:
            async with asyncio.timeout(timeout):
                for pause in _PAUSES:
                    with suppress(_NoAnswer):  # the tool server is not up yet
                        return await self._exchange(endpoint, request)
                    await asyncio.sleep(pause)
                return await self._exchange(endpoint, request)
        except TimeoutError:
            raise SandboxUnreachable(f"no answer within {timeout:.0f} s", sent=True) from None
        except (aiohttp.ClientError, OSError, EOFError, ValueError) as error:
            sent = not isinstance(error, aiohttp.ClientConnectionError)
            raise SandboxUnreachable(f"port-forward: {type(error).__name__}: {error}", sent=sent) from None

    async def _exchange(self, endpoint: SandboxEndpoint, request: bytes) -> SandboxAnswer:
        async with self._forwarded(endpoint) as socket:
            reader = asyncio.StreamReader(limit=Head.MAX_BYTES)
            pump = asyncio.create_task(_pump(socket, reader))
            try:
                for at in range(0, len(request), FRAME_BYTES):
                    await socket.send_bytes(bytes([_DATA]) + request[at : at + FRAME_BYTES])
                return await read_answer(reader)
            except aiohttp.ClientConnectionResetError as error:
                raise _NoAnswer(f"closed while the request was sent: {error}") from None
            finally:
                pump.cancel()
                with suppress(asyncio.CancelledError):
                    await pump

    @asynccontextmanager
    async def _forwarded(self, endpoint: SandboxEndpoint) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
        access = self._access
        path = f"/api/v1/namespaces/{endpoint.namespace}/pods/{endpoint.pod_name}/portforward?ports={self._port}"
        token = access.token()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        closed: asyncio.Future[None] | None = None
        try:
            async with (
                aiohttp.ClientSession(trust_env=False, ws_response_class=_Socket) as session,
                session.ws_connect(
                    access.server + path,
                    protocols=(PROTOCOL,),
                    ssl=access.tls,
                    proxy=access.proxy,
                    headers=headers,
                    max_msg_size=MESSAGE_BYTES,
                ) as socket,
            ):
                closed = socket.transport_closed() if isinstance(socket, _Socket) else None
                yield socket
        finally:
            if closed is not None:
                await asyncio.wait({closed}, timeout=CLOSE_SECONDS)


class _Socket(aiohttp.ClientWebSocketResponse):
    """A WebSocket that says when its connection is gone: a session's end does not wait for TLS to close."""

    def transport_closed(self) -> "asyncio.Future[None] | None":
        """Done once nothing is left of the connection; ask before it is closed."""
        connection = self._response.connection
        protocol = None if connection is None else connection.protocol
        return None if protocol is None else protocol.closed


async def _pump(socket: aiohttp.ClientWebSocketResponse, reader: asyncio.StreamReader) -> None:
    """Data of channel 0 into the reader, until the other side closes or says what is wrong."""
    named: set[int] = set()
    answered = False
    async for message in socket:
        frame: bytes = message.data if message.type is aiohttp.WSMsgType.BINARY else b""
        if not frame:
            break
        channel, data = frame[0], frame[1:]
        if channel not in named:
            named.add(channel)
            data = data[2:]
        if channel == _ERROR and data:
            reader.set_exception(_NoAnswer(data.decode("utf-8", "replace")[:500]))
            return
        if channel == _DATA and data:
            answered = True
            reader.feed_data(data)
    if answered:
        reader.feed_eof()
    else:
        reader.set_exception(_NoAnswer("closed without an answer"))
