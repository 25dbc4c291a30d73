"""A small API server on a real HTTPS socket: AgentRuns with watch, token requests, the service proxy, refusals."""

import json
import ssl
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.unit.cli.certificate import self_signed

Object = dict[str, Any]
RUNS = "/apis/agentrun.dev/v1alpha1/namespaces/{}/agentruns"
PROXY = "/api/v1/namespaces/agentrun-system/services/https:agentrun-read:https/proxy"
TOKEN = "the-callers-own-token"


@dataclass(frozen=True)
class Request:
    """One request as it came over the wire. `path` is still quoted."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Object


@dataclass(frozen=True)
class Answer:
    """What the server sends back."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def answer(body: Any, status: int = 200) -> Answer:
    """JSON."""
    return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def refusal(status: int, reason: str, message: str, causes: list[Object] | None = None) -> Answer:
    """The API's Status object."""
    details = {"causes": causes} if causes else {}
    return answer({"kind": "Status", "status": "Failure", "reason": reason, "message": message,
                   "details": details, "code": status}, status)  # fmt: skip


class Cluster:
    """State of the server. `rules` answer before anything else; `read` is the read API behind the service proxy."""

    def __init__(self) -> None:
        self.token = TOKEN
        self.tokens = 0
        self.requests: list[Request] = []
        self.rules: list[Callable[[Request], Answer | None]] = []
        self.read: Callable[[Request], Answer] = lambda _: answer({"error": {"class": "NotFound", "message": "x"}}, 404)
        self.changed = threading.Condition()
        self.log: list[tuple[str, Object]] = []
        self.closing = False
        self._runs: dict[tuple[str, str], Object] = {}

    # --- the world -------------------------------------------------------------------------------------------------

    def put(self, name: str, status: Object | None = None, spec: Object | None = None, namespace: str = "team") -> None:
        """Create a run, or change what is given of it."""
        with self.changed:
            old = self._runs.get((namespace, name))
            meta = {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z",
                    "uid": old["metadata"]["uid"] if old else str(uuid.uuid4()),
                    "managedFields": [{"manager": "m"}]}  # fmt: skip
            self._keep({
                "apiVersion": "agentrun.dev/v1alpha1", "kind": "AgentRun", "metadata": meta,
                "spec": spec or (old or {}).get("spec") or {"definitionRef": {"name": "fixer"}},
                "status": status or (old or {}).get("status") or {},
            }, "MODIFIED" if old else "ADDED")  # fmt: skip

    def delete(self, name: str, namespace: str = "team") -> None:
        """Gone, as watchers see it."""
        with self.changed:
            self._event("DELETED", self._runs.pop((namespace, name)))

    def run(self, name: str, namespace: str = "team") -> Object:
        """The run as it is."""
        return self._runs[namespace, name]

    def after(self, position: int) -> list[tuple[str, Object]]:
        """Events behind a position; waits for the first."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.log) > position or self.closing, 5)
            return self.log[position:]

    def cut_watches(self, kind: str = "CUT", item: Object | None = None) -> None:
        """End every watch, in the middle (CUT) or with an event of its own (ERROR)."""
        with self.changed:
            self._event(kind, item or {})

    def _keep(self, item: Object, event: str) -> None:
        item["metadata"]["resourceVersion"] = str(len(self.log) + 1)
        self._runs[item["metadata"]["namespace"], item["metadata"]["name"]] = item
        self._event(event, item)

    def _event(self, kind: str, item: Object) -> None:
        self.log.append((kind, json.loads(json.dumps(item))))
        self.changed.notify_all()

    # --- the API ---------------------------------------------------------------------------------------------------

    def serve(self, request: Request) -> Answer:
        """Everything but watches."""
        self.requests.append(request)
        for rule in self.rules:
            found = rule(request)
            if found is not None:
                return found
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return refusal(401, "Unauthorized", "Unauthorized")
        if request.path.startswith(PROXY):
            return self.read(request)
        if request.path.endswith("/serviceaccounts/agentrun-viewer/token"):
            self.tokens += 1
            return answer({"status": {"token": f"viewer-{request.path.split('/')[4]}-{self.tokens}"}}, 201)
        return self._objects(request)

    def _objects(self, request: Request) -> Answer:
        parts = [unquote(part) for part in request.path.split("/")]
        if parts[2] != "agentrun.dev" or parts[6] != "agentruns":
            return refusal(404, "NotFound", "the server could not find the requested resource")
        namespace, name = parts[5], parts[7] if len(parts) > 7 else ""
        with self.changed:
            if request.method == "POST":
                return self._create(namespace, request.body)
            if not name:
                return self._list(namespace, request.query.get("fieldSelector", ""))
            if (namespace, name) not in self._runs:
                return refusal(404, "NotFound", f'agentruns.agentrun.dev "{name}" not found')
            return (
                self._patch(namespace, name, request)
                if request.method == "PATCH"
                else answer(self.run(name, namespace))
            )

    def _create(self, namespace: str, body: Object) -> Answer:
        meta = body["metadata"]
        name = meta.get("name") or meta["generateName"] + "x7k2p"
        if (namespace, name) in self._runs:
            return refusal(409, "AlreadyExists", f'agentruns.agentrun.dev "{name}" already exists')
        self.put(name, {"state": "created"}, body["spec"], namespace)
        return answer(self.run(name, namespace), 201)

    def _list(self, namespace: str, selector: str) -> Answer:
        wanted = selector.removeprefix("metadata.name=")
        items = [run for (where, name), run in self._runs.items() if where == namespace and wanted in ("", name)]
        return answer({"metadata": {"resourceVersion": str(len(self.log))}, "items": items})

    def _patch(self, namespace: str, name: str, request: Request) -> Answer:
        old = self.run(name, namespace)
        if request.body.get("metadata", {}).get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            causes = [{"field": "metadata.uid", "message": "Invalid value: field is immutable"}]
            return refusal(422, "Invalid", "metadata.uid: field is immutable", causes)
        self.put(name, None, {**old["spec"], **request.body["spec"]}, namespace)
        return answer(self.run(name, namespace))


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def do_GET(self) -> None:
        """Reads and watches."""
        request = self._request()
        found = self.cluster.serve(request)
        if request.query.get("watch") == "true" and found.status == 200:
            self._watch(int(request.query["resourceVersion"]), request.path.split("/")[5])
        else:
            self._send(found)

    def do_POST(self) -> None:
        """Creates."""
        self._send(self.cluster.serve(self._request()))

    def do_PATCH(self) -> None:
        """Changes."""
        self._send(self.cluster.serve(self._request()))

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return Request(str(self.command), parts.path, dict(parse_qsl(parts.query)), dict(self.headers.items()),
                       json.loads(raw) if raw else {})  # fmt: skip

    def _send(self, found: Answer) -> None:
        self.send_response(found.status)
        for name, value in {**found.headers, "Content-Length": str(len(found.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(found.body)

    def _watch(self, position: int, namespace: str) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        cluster = self.cluster
        while not cluster.closing:
            fresh = cluster.after(position)
            position += len(fresh)
            for kind, item in fresh:
                if kind == "CUT":  # the connection ends here, as when an API server restarts
                    return
                if item.get("metadata", {}).get("namespace", namespace) == namespace:
                    self.wfile.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")

    def log_message(self, *_: Any) -> None:
        """Quiet."""


class Server(ThreadingHTTPServer):
    """HTTPS on loopback; a client that goes away is no error."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Broken pipes of watches that the client ended."""


def start(folder: Path, cluster: Cluster) -> tuple[Server, Path]:
    """The server and a kubeconfig for it: context `main`, namespace `team`."""
    certificate, key = self_signed(folder)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"cluster": cluster}))
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    path = folder / "kubeconfig"
    path.write_text(json.dumps(kubeconfig(f"https://127.0.0.1:{server.server_port}", str(certificate))))
    return server, path


def kubeconfig(server: str, authority: str) -> Object:
    """JSON is YAML."""
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "plain", "context": {"cluster": "c", "user": "u"}},
        ],
    }  # fmt: skip
