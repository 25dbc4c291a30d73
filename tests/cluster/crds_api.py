"""A small synchronous client of the API server that acts as anybody, for the tests of CRDs and admission policies."""

import base64
import json
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import yaml

Manifest = dict[str, Any]
GROUP = "/apis/agentrun.dev/v1alpha1"
OPERATOR = "system:serviceaccount:agentrun-system:agentrun-operator"
DEADLINE_SECONDS = 60.0
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class Refused(Exception):
    """The API server's answer to a refused request."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Api:
    """Requests as one person; `as_user` makes another."""

    http: httpx2.Client
    headers: list[tuple[str, str]] = field(default_factory=list)

    def as_user(self, name: str, *groups: str) -> "Api":
        """The same API server, seen by somebody else (impersonation)."""
        people = ("system:authenticated", *groups)
        return Api(self.http, [("Impersonate-User", name), *(("Impersonate-Group", group) for group in people)])

    def request(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: str
    ) -> Manifest:
        """One request. Raises: Refused."""
        content = None if body is None else yaml.safe_dump(body).encode() if kind == APPLY else _json(body)
        headers = [*self.headers, ("Content-Type", kind), ("Accept", "application/json")]
        answer = self.http.request(method, path, content=content, headers=headers, params=query)
        if answer.status_code >= 400:
            raise Refused(answer.status_code, _message(answer))
        return answer.json()  # type: ignore[no-any-return]

    def get(self, path: str) -> Manifest:
        """Read."""
        return self.request("GET", path)

    def create(self, path: str, manifest: Manifest, **query: str) -> Manifest:
        """Create."""
        return self.request("POST", path, manifest, **query)

    def replace(self, path: str, manifest: Manifest) -> Manifest:
        """Replace."""
        return self.request("PUT", path, manifest)

    def patch(self, path: str, body: Manifest) -> Manifest:
        """JSON merge patch."""
        return self.request("PATCH", path, body, MERGE)

    def apply(self, path: str, manifest: Manifest, manager: str = "pipeline", **query: str) -> Manifest:
        """Server-side apply."""
        return self.request("PATCH", path, manifest, APPLY, fieldManager=manager, **query)

    def delete(self, path: str) -> None:
        """Delete; gone already is fine."""
        try:
            self.request("DELETE", path)
        except Refused as refused:
            if refused.code != 404:
                raise


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()


def _message(answer: httpx2.Response) -> str:
    try:
        return str(answer.json().get("message", answer.text))
    except ValueError:
        return answer.text


def eventually(attempt: Callable[[], Any], what: str, retry_on: tuple[type[Exception], ...] = (Refused,)) -> Any:
    """Repeat until it neither raises nor returns False; bounded.

    Raises: AssertionError naming the last refusal.
    """
    end = time.monotonic() + DEADLINE_SECONDS
    last: object = None
    while time.monotonic() < end:
        try:
            result = attempt()
            if result is not False:
                return result
        except retry_on as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {DEADLINE_SECONDS:.0f} s ({last})")


@contextmanager
def connect(kubeconfig: Path) -> Iterator[Api]:
    """The API server that a kubeconfig names, as the kubeconfig's user."""
    config = yaml.safe_load(kubeconfig.read_text())
    context = next(c["context"] for c in config["contexts"] if c["name"] == config["current-context"])
    cluster = next(c["cluster"] for c in config["clusters"] if c["name"] == context["cluster"])
    user = next(u["user"] for u in config["users"] if u["name"] == context["user"])
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    with httpx2.Client(
        base_url=cluster["server"], verify=_tls(cluster, user, kubeconfig.parent), headers=headers, timeout=60
    ) as http:
        yield Api(http)


def _tls(cluster: Manifest, user: Manifest, folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=_pem(cluster, "certificate-authority", folder))
    if "client-certificate" in user or "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{_pem(user, 'client-certificate', folder)}\n{_pem(user, 'client-key', folder)}")
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _pem(entry: Manifest, name: str, folder: Path) -> str:
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"]).decode()
    return (folder / entry[name]).read_text()


def collection(namespace: str, plural: str) -> str:
    """Path of a collection of ours in a namespace."""
    return f"{GROUP}/namespaces/{namespace}/{plural}"
