"""The supervisor: pid 1 of the container. One thread, one epoll: requests in, steps out, the dead reaped always."""

import os
import select
import signal
import socket
import sys
import time

from agentrun_sandbox import TYPE_CHECKING, dispatch
from agentrun_sandbox.config import Config
from agentrun_sandbox.errors import Refused, StepError
from agentrun_sandbox.http import Connection, Request
from agentrun_sandbox.memory import Memory
from agentrun_sandbox.operations import preload
from agentrun_sandbox.supervisor import Supervisor
from agentrun_sandbox.token import Claims

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_CONNECTIONS = 64
MAX_STEPS = 16
PRELOAD_SECONDS = 0.02  # nobody asks anything: import what steps will need
_EVENTS_IN, _EVENTS_OUT = select.EPOLLIN, select.EPOLLIN | select.EPOLLOUT


class Server:
    """Listens from the constructor on; `serve` runs until SIGTERM."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.boot_id = os.urandom(16).hex()
        self._listener = _listen(config.port)
        self.port = int(self._listener.getsockname()[1])
        self._listener.setblocking(False)
        self._epoll = select.epoll()
        self._ready: dict[int, Callable[[int], None]] = {}
        self._connections: dict[int, Connection] = {}
        self._memory = Memory(config.state)
        self._supervisor = Supervisor(config, self.boot_id, self._memory, self.watch, self.unwatch)
        self._stopping = False

    def watch(self, fd: int, ready: "Callable[[int], None]") -> None:
        """Call `ready(events)` when `fd` can be read."""
        self._ready[fd] = ready
        self._epoll.register(fd, _EVENTS_IN)

    def unwatch(self, fd: int) -> None:
        """Forget a descriptor before it is closed."""
        del self._ready[fd]
        self._epoll.unregister(fd)

    def serve(self) -> None:
        """Until SIGTERM; then everything below is ended."""
        wake, self._signals = socket.socketpair()
        wake.setblocking(False)
        self._signals.setblocking(False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(self._signals.fileno(), warn_on_full_buffer=False)
        self.watch(wake.fileno(), lambda _: _drain(wake))
        self.watch(self._listener.fileno(), lambda _: self._accept())
        preloaded = False
        while not self._stopping:
            ready_now = self._epoll.poll(self._supervisor.seconds_to_deadline() if preloaded else PRELOAD_SECONDS)
            if not ready_now and not preloaded:
                preload()
                preloaded = True
            for fd, events in ready_now:
                ready = self._ready.get(fd)
                if ready:
                    ready(events)
            self._supervisor.tick()
        self._supervisor.end_everything()

    def _on_signal(self, number: int, _frame: object) -> None:
        if number != signal.SIGCHLD:
            self._stopping = True

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        if len(self._connections) >= MAX_CONNECTIONS:
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(sock, self._check_head, self._handle)
        fd = sock.fileno()
        self._connections[fd] = connection
        self.watch(fd, lambda events: self._serve_connection(fd, events))

    def _serve_connection(self, fd: int, events: int) -> None:
        connection = self._connections[fd]
        if events & select.EPOLLOUT:
            connection.writable()
        if not connection.closed and events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            connection.readable()
        self._update(fd, connection)

    def _update(self, fd: int, connection: Connection) -> None:
        if self._connections.get(fd) is not connection:
            return  # it is gone, and its number may be another connection's by now
        if connection.closed:
            del self._connections[fd]
            del self._ready[fd]  # closing has taken it from the epoll already
            return
        self._epoll.modify(fd, _EVENTS_OUT if connection.wants_write() else _EVENTS_IN)

    def _check_head(self, request: Request) -> None:
        if request.path == "/healthz":
            if request.method != "GET":
                raise Refused(405, "BadRequest", "use GET")
        elif request.path != "/v1/op":
            raise Refused(404, "BadRequest", "there are GET /healthz and POST /v1/op")
        elif request.method != "POST":
            raise Refused(405, "BadRequest", "use POST")
        else:
            request.context = dispatch.check_head(request.headers.get("agentrun-dispatch", ""), self.config)

    def _handle(self, connection: Connection, request: Request) -> None:
        claims = request.context
        if not isinstance(claims, Claims):
            connection.answer(200, dispatch.healthz(self.config, self.boot_id, self._memory.fence), self._headers())
            return
        try:
            self._dispatch(connection, claims, request.body)
        except Refused as error:
            connection.refuse(error)
        except StepError as error:
            connection.answer(200, self._supervisor.answer_of(claims, error), self._headers())

    def _dispatch(self, connection: Connection, claims: Claims, raw: bytes) -> None:
        dispatch.check_body(claims, raw, self._memory)
        body = dispatch.parsed(claims, raw)
        key = dispatch.step_key(claims, body)
        fd = connection.sock.fileno()

        def answer(data: bytes, *, replayed: bool = False) -> None:
            connection.answer(200, data, self._headers(replayed=replayed))
            if not connection.closed:
                connection.advance()
            self._update(fd, connection)

        if self._supervisor.join(claims, key, answer):
            return
        known = dispatch.recall(claims, key, self._memory)
        if known.answer is not None:
            answer(known.answer, replayed=True)
        elif known.error is not None:
            raise known.error
        elif self._supervisor.running() >= MAX_STEPS and claims.op not in ("kill", "ps"):
            raise Refused(503, "Busy", f"{MAX_STEPS} steps are running: nothing was begun, try again")
        else:
            self._supervisor.begin(claims, key, body, raw, answer)

    def _headers(self, *, replayed: bool = False) -> "dict[str, str]":
        headers = {
            "Agentrun-Pod-UID": self.config.pod_uid,
            "Agentrun-Boot-ID": self.boot_id,
            "Agentrun-Fence": str(self._memory.fence),
        }
        return {**headers, "Agentrun-Replayed": "1"} if replayed else headers


def _listen(port: int) -> socket.socket:
    """IPv4 and IPv6 where the kernel has both."""
    try:
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)
    except (OSError, ValueError):
        return socket.create_server(("", port), backlog=128)


def _drain(sock: socket.socket) -> None:
    try:
        while sock.recv(4096):
            pass
    except BlockingIOError:
        pass


def main() -> int:
    """Entry point of the sandbox container."""
    from agentrun_sandbox.config import ConfigError, load

    started = time.monotonic()
    try:
        server = Server(load(dict(os.environ)))
    except (ConfigError, OSError) as error:
        print(f"agentrun-sandbox: {error}", file=sys.stderr, flush=True)
        return 2
    print(
        f"agentrun-sandbox: port {server.port}, boot {server.boot_id}, {(time.monotonic() - started) * 1000:.0f} ms",
        flush=True,
    )
    server.serve()
    return 0
