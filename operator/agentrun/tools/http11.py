"""The part of HTTP/1.1 (RFC 9112) that a tool server speaks, read from an untrusted peer in bounded memory."""

import asyncio
from collections.abc import Mapping

import msgspec

from agentrun.tools.sandbox import SandboxAnswer

PATH = "/v1/op"
MAX_ANSWER_BYTES = 80 * 1024 * 1024  # the largest output a tool may keep, as base64


class Head(msgspec.Struct, frozen=True):
    """Status line and header fields of an answer, names in lower case."""

    MAX_BYTES = 64 * 1024

    status: int
    headers: dict[str, str]


def request_bytes(host: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """A POST of these bytes; the connection ends with the answer."""
    lines = [
        f"POST {PATH} HTTP/1.1",
        f"Host: [{host}]" if ":" in host else f"Host: {host}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + body


async def read_answer(reader: asyncio.StreamReader) -> SandboxAnswer:
    """One whole answer. Raises ValueError or EOFError for anything else than the protocol."""
    try:
        head = parse_head(await reader.readuntil(b"\r\n\r\n"))
    except asyncio.LimitOverrunError:
        raise ValueError("the head of the answer is too long") from None
    length = head.headers.get("content-length", "")
    if not (length.isascii() and length.isdecimal()) or len(length) > 9 or int(length) > MAX_ANSWER_BYTES:
        raise ValueError(f"the answer's length is not one of at most {MAX_ANSWER_BYTES} bytes")
    return SandboxAnswer(head.status, await reader.readexactly(int(length)), head.headers)


def parse_head(raw: bytes) -> Head:
    """Raises ValueError."""
    lines = raw.decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    status = rest[:3]
    if version != "HTTP/1.1" or not (status.isascii() and status.isdecimal()):
        raise ValueError("the answer is no HTTP/1.1")
    fields = (line.partition(":") for line in lines[1:] if line)
    return Head(int(status), {name.strip().lower(): value.strip() for name, _, value in fields})
