"""The guard: an init container that proves what is closed before anything of the user's starts.

A new Pod may be open for a moment until its policy is in force, so an open target is tried again for a while.
A failed connect proves something only because the operator has just reached the denied target itself.
"""

import errno
import json
import os
import select
import socket
import sys
import time

from agentrun_sandbox import TYPE_CHECKING
from agentrun_sandbox.config import ConfigError

if TYPE_CHECKING:
    Body = dict[str, object]

NODE_PORT = 10250  # the kubelet's
TOLERABLE = ("NodeIP", "APIServer")
APART_SECONDS = 0.2
CONNECT_SECONDS = 0.5  # an answer inside a cluster takes milliseconds; a dropped packet never answers
AGAIN_SECONDS = (0.1, 1.0)  # first and longest pause while a target is open: a thousand Pods must not flood it
PATIENCE_SECONDS = 15.0
TERMINATION_LOG = "/dev/termination-log"
MAX_MESSAGE_BYTES = 4095
MAX_TOLD = 24
_USAGE = "usage: guard [check] [copy DEST]"


class Target:
    """One address and what is known about it. `settled`: nothing more has to be tried."""

    def __init__(self, text: str, *, closed: bool, tolerated: bool = False) -> None:
        self.text = text
        self.family, self.address = parse_target(text)
        self.must_be_closed = closed
        self.tolerated = tolerated
        self.failures = 0
        self.tries = 0
        self.open = False
        self.next_try = 0.0
        self.pause = AGAIN_SECONDS[0]
        self.began = 0.0
        self.sock: socket.socket | None = None

    @property
    def settled(self) -> bool:
        """Closed twice in a row, or reached where it must be, or tolerated and known to be open."""
        if self.must_be_closed:
            return self.failures >= 2 or (self.tolerated and self.open)
        return self.open

    def begin(self, now: float) -> None:
        """Start a connect."""
        self.began = now
        self.sock = socket.socket(self.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        code = self.sock.connect_ex(self.address)
        if code not in (0, errno.EINPROGRESS):
            self.end(now, connected=False)

    def end(self, now: float, *, connected: bool) -> None:
        """A connect has succeeded or failed."""
        if self.sock is not None:
            self.sock.close()
            self.sock = None
        self.tries += 1
        self.open = connected
        self.failures = 0 if connected else self.failures + 1
        if connected:
            self.next_try = now + self.pause
            self.pause = min(2 * self.pause, AGAIN_SECONDS[1])
        else:
            self.next_try = max(now, self.began + APART_SECONDS)


def parse_target(text: str) -> "tuple[socket.AddressFamily, tuple[str, int]]":
    """Family and address of `ip:port` or `[ip]:port`. Raises ConfigError."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    family = socket.AF_INET6 if bracketed else socket.AF_INET
    host = host[1:-1] if bracketed else host
    try:
        socket.inet_pton(family, host)
        number = int(port)
    except (OSError, ValueError):
        number = 0
    if not 0 < number < 65536:
        raise ConfigError(
            f"guard: {text!r} is no target: give ip:port, IPv6 in brackets (no names: nothing resolves here)"
        )
    return family, (host, number)


def targets(guard: "Body", host_ip: str) -> "list[Target]":
    """What has to be probed. Raises ConfigError where nothing would be proven."""
    tolerate = _texts(guard, "tolerate")
    unknown = set(tolerate) - set(TOLERABLE)
    if unknown:
        raise ConfigError(f"guard.tolerate: {min(unknown)!r} is none of {', '.join(TOLERABLE)}")
    found = [Target(text, closed=True) for text in _texts(guard, "denied")]
    if guard.get("api"):
        found.append(Target(str(guard["api"]), closed=True, tolerated="APIServer" in tolerate))
    if guard.get("node") is True:
        if not host_ip:
            raise ConfigError("HOST_IP is empty: set it by the downward API from status.hostIP")
        host = f"[{host_ip}]" if ":" in host_ip else host_ip
        found.append(Target(f"{host}:{NODE_PORT}", closed=True, tolerated="NodeIP" in tolerate))
    if not any(not target.tolerated for target in found):
        raise ConfigError("guard.denied is empty: without a target that must be closed nothing is proven")
    return found + [Target(text, closed=False) for text in _texts(guard, "allowed")]


def _texts(guard: "Body", name: str) -> "list[str]":
    value = guard.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"guard.{name} must be a list of texts")
    return value


def probe(found: "list[Target]", patience: float = PATIENCE_SECONDS) -> None:
    """Try all targets in parallel until each is settled or the patience is over."""
    end = time.monotonic() + patience
    while not all(target.settled for target in found):
        now = time.monotonic()
        if now > end:
            break
        for target in found:
            if not target.settled and target.sock is None and now >= target.next_try:
                target.begin(now)
        _wait(found)
    for target in found:
        if target.sock is not None:
            target.sock.close()


def _wait(found: "list[Target]") -> None:
    poll, waiting = select.poll(), {}
    for target in found:
        if target.sock is not None:
            waiting[target.sock.fileno()] = target
            poll.register(target.sock, select.POLLOUT)
    ready = {fd for fd, _ in poll.poll(10)}
    now = time.monotonic()
    for fd, target in waiting.items():
        if target.sock is not None and fd in ready:
            target.end(now, connected=target.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0)
        elif now - target.began > CONNECT_SECONDS:
            target.end(now, connected=False)


def result_of(found: "list[Target]", began: float) -> "Body":
    """The termination message's members."""
    opened = [t.text for t in found if t.must_be_closed and not t.tolerated and not t.settled]
    tolerated = [t.text for t in found if t.tolerated and t.open]
    failed = [t.text for t in found if not t.must_be_closed and not t.open]
    message = "closed as it must be"
    if opened:
        message = f"egress is not enforced: {opened[0]} can be reached; does this cluster enforce NetworkPolicy?"
    elif failed:
        message = f"{failed[0]} must be reachable and is not"
    return {
        "v": 1, "ok": not opened and not failed, "podUID": os.environ.get("POD_UID", ""),
        "open": opened[:MAX_TOLD], "tolerated": tolerated[:MAX_TOLD], "allowedFailed": failed[:MAX_TOLD],
        "durationMs": int((time.monotonic() - began) * 1000), "message": message,
    }  # fmt: skip


def _configured() -> "Body":
    document = json.loads(os.environ.get("AGENTRUN_SANDBOX") or "null")
    guard = document.get("guard") if isinstance(document, dict) else None
    if not isinstance(guard, dict):
        raise ConfigError("AGENTRUN_SANDBOX.guard is missing")
    return guard


def check() -> int:
    """Probe and report; the exit status."""
    began = time.monotonic()
    try:
        found = targets(_configured(), os.environ.get("HOST_IP", ""))
    except (ConfigError, ValueError) as error:
        report({"v": 1, "ok": False, "open": [], "tolerated": [], "allowedFailed": [], "message": str(error)[:1000]})
        return 2
    probe(found)
    result = result_of(found, began)
    report(result)
    return 0 if result["ok"] else 1


def report(result: "Body") -> None:
    """Write the termination message, and the same line to the log."""
    data = json.dumps(result, separators=(",", ":")).encode()[:MAX_MESSAGE_BYTES]
    print(data.decode(), flush=True)
    path = os.environ.get("AGENTRUN_TERMINATION_LOG", TERMINATION_LOG)
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        print(f"guard: {path} cannot be written: {error.strerror}", file=sys.stderr, flush=True)


def copy(destination: str) -> int:
    """Copy the tool server's tree to where the sandbox container will look for it; the exit status."""
    import shutil

    for name in ("bin", "lib"):
        source = os.path.join(sys.prefix, name)
        shutil.copytree(source, os.path.join(destination, name), symlinks=True, dirs_exist_ok=True)
    return 0


def main(arguments: "list[str]") -> int:
    """`[check] [copy DEST]`; nothing given means check."""
    todo = list(arguments) or ["check"]
    while todo:
        verb = todo.pop(0)
        if verb == "check":
            code = check()
        elif verb == "copy" and todo:
            code = copy(todo.pop(0))
        else:
            print(_USAGE, file=sys.stderr)
            return 2
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
