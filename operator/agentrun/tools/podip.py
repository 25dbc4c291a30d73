"""Adapter of the sandbox port inside the cluster: straight to the Pod's IP, dialled until somebody answers."""

import asyncio

from agentrun.tools.http11 import Head, read_answer, request_bytes
from agentrun.tools.sandbox import HEADER, PORT, SandboxAnswer, SandboxEndpoint, SandboxUnreachable

CONNECT_SECONDS = 2.0
DIAL_SECONDS = 10.0  # a new Pod answers within a second; one that never does is the operator's to judge
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class PodIPSandbox:
    """One connection for each dispatch: a call may last for hours, and a pooled connection that died costs a retry."""

    def __init__(self, port: int = PORT, dial_seconds: float = DIAL_SECONDS) -> None:
        self._port = port
        self._dial_seconds = dial_seconds

    async def dispatch(
        self, endpoint: SandboxEndpoint, dispatch_jws: str, body: bytes, timeout: float
    ) -> SandboxAnswer:
        """See SandboxPort."""
        sent = False
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await self._dial(endpoint, min(timeout, self._dial_seconds))
                try:
                    sent = True
                    writer.write(request_bytes(endpoint.pod_ip, {HEADER: dispatch_jws}, body))
                    await writer.drain()
                    return await read_answer(reader)
                finally:
                    writer.close()
        except TimeoutError:
            raise SandboxUnreachable(f"no answer within {timeout:.0f} s", sent=sent) from None
        except (OSError, EOFError, ValueError) as error:
            raise SandboxUnreachable(f"{type(error).__name__}: {error}", sent=sent) from None

    async def _dial(
        self, endpoint: SandboxEndpoint, seconds: float
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Until somebody accepts: the kubelet's probe has a resolution of whole seconds. Raises OSError."""
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + seconds, _FIRST_PAUSE
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(endpoint.pod_ip, self._port, limit=Head.MAX_BYTES)
            except (OSError, TimeoutError) as error:
                if loop.time() + pause >= end:
                    raise OSError(f"nobody accepts on {endpoint.pod_ip}:{self._port} ({error})") from None
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)
