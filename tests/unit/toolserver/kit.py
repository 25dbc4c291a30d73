"""A real tool server as pid 1 of a PID namespace of its own, and the broker's part of the protocol, for tests.

Only there may it kill(-1): the namespace holds nothing but the server and what it starts.
"""

import base64
import hashlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.cluster.shell import need_packages

ROOT = Path(__file__).resolve().parents[3]
TOOLSERVER = ROOT / "sandbox-images" / "toolserver"
RUN, POD, KID = "run-uid-1", "pod-uid-1", "k1"
KEY = Ed25519PrivateKey.generate()
SODIUM = f"/usr/lib/{os.uname().machine}-linux-gnu/libsodium.so.23"
Json = dict[str, Any]


def public_key(key: Ed25519PrivateKey) -> str:
    """As AGENTRUN_SANDBOX holds it."""
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def digest(data: bytes) -> str:
    """As claims and results hold it."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def claims(op: str, raw: bytes, step: str, /, **changes: Any) -> Json:
    """What the broker would sign for this dispatch."""
    now = int(time.time())
    said = {
        "aud": POD, "run": RUN, "step": step, "call": "", "attempt": 1, "op": op, "fence": 1, "minFence": 1,
        "bodyDigest": digest(raw), "iat": now, "exp": now + 60,
    }  # fmt: skip
    return {**said, **changes}


def sign(said: Json, key: Ed25519PrivateKey = KEY, kid: str = KID) -> str:
    """The header's value."""
    return jwt.encode(said, key, algorithm="EdDSA", headers={"kid": kid})


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; `json` is its body."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Json:
        """The body's object."""
        value: Json = json.loads(self.raw)
        return value

    @property
    def refused(self) -> str:
        """Class of a refusal."""
        return str(self.json["error"]["class"])


class Sandbox:
    """A server with its folders. `launcher` stands before the interpreter, inside the new namespaces."""

    def __init__(
        self,
        folder: Path,
        limits: Json | None = None,
        environment: dict[str, str] | None = None,
        python: Sequence[str | Path] = (sys.executable, "-X", "utf8"),
        launcher: Sequence[str | Path] = (),
    ) -> None:
        need_packages({SODIUM: "libsodium23", "unshare": "util-linux"})
        self.workspace, self.state = folder / "workspace", folder / "state"
        for path in (self.workspace, self.state):
            path.mkdir(exist_ok=True)
        self._config = {
            "v": 1, "run": RUN, "keys": [{"kid": KID, "publicKey": public_key(KEY)}], "port": 0,
            "limits": limits or {}, "workspace": str(self.workspace), "state": str(self.state),
        }  # fmt: skip
        self._environment = environment
        self._command = [*launcher, *python, "-m", "agentrun_sandbox"]
        self._steps = 0
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it says where it listens."""
        namespaces = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        if os.geteuid() != 0:
            namespaces[1:1] = ["--user", "--map-root-user"]
        given = dict(os.environ) if self._environment is None else self._environment
        environment = {**given, "AGENTRUN_SANDBOX": json.dumps(self._config), "POD_UID": POD}
        if self._environment is None:
            environment["PYTHONPATH"] = str(TOOLSERVER)
        self._process = subprocess.Popen([*namespaces, *self._command], env=environment, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        assert line.startswith("agentrun-sandbox: port "), line
        self.port = int(line.split()[2].rstrip(","))

    @property
    def pid(self) -> int:
        """The server's pid as this test sees it."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(children[0])

    def stop(self) -> None:
        """End it as the kernel would: pid 1 by SIGKILL, and with it its namespace."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(timeout=20)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def restart(self) -> None:
        """What the kubelet does when pid 1 has died: the same volumes, a new process."""
        self.stop()
        self.start()

    def send(self, op: str, body: Json | bytes = b"", step: str = "", /, **changes: Any) -> Answer:
        """A signed dispatch; `changes` are to its claims, after the fact of the body."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._steps += 1
        return self.post(raw, sign(claims(op, raw, step or f"s{self._steps}", **changes)))

    def post(self, raw: bytes, token: str | None) -> Answer:
        """Bytes to `/v1/op`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", "/v1/op", raw, {} if token is None else {"Agentrun-Dispatch": token})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def ok(self, op: str, body: Json | bytes = b"", step: str = "", /, **changes: Any) -> Json:
        """The result of a dispatch that must be accepted and succeed."""
        result = self.result(op, body, step, **changes)
        assert result["status"] == "ok", result
        return result

    def failed(self, op: str, body: Json | bytes = b"", step: str = "", /, **changes: Any) -> Json:
        """The result of a dispatch that must be accepted and fail."""
        result = self.result(op, body, step, **changes)
        assert result["status"] == "error", result
        return result

    def result(self, op: str, body: Json | bytes = b"", step: str = "", /, **changes: Any) -> Json:
        """The result of a dispatch that must be accepted."""
        answer = self.send(op, body, step, **changes)
        assert answer.status == 200, answer.raw
        return answer.json

    def healthz(self) -> Json:
        """What `GET /healthz` says."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/healthz")
            value: Json = json.loads(connection.getresponse().read())
            return value
        finally:
            connection.close()


def call(**arguments: Any) -> Json:
    """Body of a model's tool call."""
    return {"arguments": arguments}


def shell(script: str, **members: Any) -> Json:
    """Body of a `run` of a shell."""
    return {"arguments": {"argv": ["sh", "-c", script]}, **members}


def until(condition: Any, seconds: float = 20.0) -> None:
    """Poll; fails if it never holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not so in time"
        time.sleep(0.01)
