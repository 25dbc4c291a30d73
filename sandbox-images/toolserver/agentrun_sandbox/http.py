"""HTTP/1.1 (RFC 9112), the part that is needed: one request at a time on a connection, bodies with a length."""

import json
import socket

from agentrun_sandbox import TYPE_CHECKING
from agentrun_sandbox.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    Headers = dict[str, str]

MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 4 << 20
_READ_BYTES = 256 * 1024
REASONS = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    409: "Conflict", 411: "Length Required", 413: "Content Too Large", 431: "Request Header Fields Too Large",
    500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


class Request:
    """Method, path, header fields (names in lower case) and the body's bytes."""

    def __init__(self, method: str, path: str, headers: "Headers") -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = b""
        self.context: object = None  # what the head's check found out


class Connection:
    """Bytes in, requests out; answers in the order of requests."""

    def __init__(
        self,
        sock: socket.socket,
        on_head: "Callable[[Request], None]",
        on_request: "Callable[[Connection, Request], None]",
    ) -> None:
        self.sock = sock
        self._on_head = on_head
        self._on_request = on_request
        self._in = bytearray()
        self._out = bytearray()
        self._request: Request | None = None
        self._length = 0
        self.waiting = False  # for the answer of a request
        self.closing = False
        self.closed = False

    def wants_write(self) -> bool:
        """Whether bytes wait to be sent."""
        return bool(self._out)

    def readable(self) -> None:
        """Take what has come."""
        try:
            data = self.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._in += data
        self.advance()

    def advance(self) -> None:
        """Begin the next request if it is all there."""
        try:
            while not (self.waiting or self.closing) and self._step():
                pass
        except Refused as error:
            self.closing = True  # what follows on this connection cannot be told from the rest of the body
            self.refuse(error)

    def _step(self) -> bool:
        if self._request is None:
            at = self._in.find(b"\r\n\r\n")
            if at < 0:
                if len(self._in) > MAX_HEAD_BYTES:
                    raise Refused(431, "BadRequest", f"the head is longer than {MAX_HEAD_BYTES} bytes")
                return False
            request = parse_head(bytes(self._in[:at]))
            del self._in[: at + 4]
            self._length = body_length(request)
            self._on_head(request)  # a dispatch that nobody signed gets no memory for its body
            self._request = request
            if request.headers.get("expect", "").lower() == "100-continue":
                self._send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if len(self._in) < self._length:
            return False
        request, self._request = self._request, None
        request.body = bytes(self._in[: self._length])
        del self._in[: self._length]
        self.waiting = True
        self.closing = request.headers.get("connection", "").lower() == "close"
        self._on_request(self, request)
        return True

    def answer(self, status: int, body: bytes, headers: "Headers") -> None:
        """Send the answer of the request at hand."""
        self.waiting = False
        if self.closed:
            return
        lines = [
            f"HTTP/1.1 {status} {REASONS[status]}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if self.closing:
            lines.append("Connection: close")
        self._send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def refuse(self, error: Refused) -> None:
        """Send a refusal."""
        body = {"v": 1, "error": {"class": error.kind, "message": error.message}}
        self.answer(error.status, json.dumps(body).encode(), {})

    def _send(self, data: bytes) -> None:
        self._out += data
        self.writable()

    def writable(self) -> None:
        """Send what the socket takes."""
        try:
            sent = self.sock.send(self._out)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        del self._out[:sent]
        if self.closing and not self._out and not self.waiting:
            self.close()

    def close(self) -> None:
        """Give the connection up; a running step goes on and keeps its result."""
        if not self.closed:
            self.closed = True
            self.sock.close()


def parse_head(raw: bytes) -> Request:
    """Request line and header fields. Raises Refused (400)."""
    lines = raw.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise Refused(400, "BadRequest", "no HTTP/1.1 request line")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or not name or name != name.strip() or name in headers:
            raise Refused(400, "BadRequest", f"the header field {name[:64]!r} is malformed or given twice")
        headers[name] = value.strip()
    return Request(parts[0], parts[1], headers)


def body_length(request: Request) -> int:
    """Bytes of the body. Raises Refused: 400, 411, 413."""
    if "transfer-encoding" in request.headers:
        raise Refused(411, "BadRequest", "give Content-Length instead of Transfer-Encoding")
    text = request.headers.get("content-length", "0" if request.method == "GET" else "")
    if not text.isascii() or not text.isdigit():
        raise Refused(411, "BadRequest", "Content-Length is missing or no number")
    if len(text) > 12 or int(text) > MAX_BODY_BYTES:
        raise Refused(413, "BodyTooLarge", f"a body may have {MAX_BODY_BYTES} bytes")
    return int(text)
