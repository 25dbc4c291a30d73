"""A server on loopback that speaks Chat Completions, as scripted: deltas, errors, cut and slow streams."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Handler = Callable[["Exchange"], Awaitable[None]]


@dataclass
class Exchange:
    """One request and the connection it came on."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self, status: int, body: Any, **headers: str) -> None:
        """A whole answer."""
        raw = json.dumps(body).encode()
        head = {"Content-Type": "application/json", "Content-Length": str(len(raw)), **headers}
        self.writer.write(_head(status, head) + raw)
        await self.writer.drain()

    async def begin(self) -> None:
        """The head of a stream."""
        self.writer.write(_head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}))
        await self.writer.drain()

    async def send(self, event: Any) -> None:
        """One server-sent event in a chunk of its own."""
        raw = f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()
        self.writer.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        await self.writer.drain()

    async def end(self, *events: Any) -> None:
        """The events, `[DONE]` and the end of the stream."""
        for event in (*events, "[DONE]"):
            await self.send(event)
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def hung_up(self) -> bool:
        """Wait until the caller closes the connection."""
        return await self.reader.read(1) == b""


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def text(piece: str) -> dict[str, Any]:
    """A delta of text."""
    return {"choices": [{"index": 0, "delta": {"content": piece}}]}


def call(index: int, arguments: str, **names: str) -> dict[str, Any]:
    """A delta of a tool call."""
    function = {"arguments": arguments, **({"name": names["name"]} if "name" in names else {})}
    delta = {"index": index, "type": "function", "function": function, **({"id": names["id"]} if "id" in names else {})}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]}


def finish(reason: str) -> dict[str, Any]:
    """The delta that ends a reply."""
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def usage(prompt: int, completion: int, **details: int) -> dict[str, Any]:
    """The last chunk of a stream whose usage was asked for."""
    report: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": details.get("cached", 0)},
        "completion_tokens_details": {"reasoning_tokens": details.get("reasoning", 0)},
    }
    return {"choices": [], "usage": report}


@dataclass
class Provider:
    """The running server: what it was asked, and the handler that answers next."""

    url: str = ""
    handler: Handler | None = None
    seen: list[Exchange] = field(default_factory=list[Exchange])
    writers: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.writers.append(writer)
        try:
            while (exchange := await _read(reader, writer)) is not None:
                self.seen.append(exchange)
                assert self.handler is not None
                await self.handler(exchange)
        except ConnectionError:
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Exchange(first.split(" ")[1], headers, json.loads(raw or b"{}"), reader, writer)


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    """A provider on a free port of loopback."""
    running = Provider()
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    running.url = f"http://127.0.0.1:{port}/v1"
    try:
        yield running
    finally:
        server.close()
        for writer in running.writers:
            writer.close()
        await server.wait_closed()
