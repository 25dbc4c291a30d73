"""Without an API server the broker allows nothing, and says so as something to repeat (design 6)."""

import asyncio
import io
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from agentrun.broker.authority import Object
from agentrun.broker.callers import Callers
from agentrun.broker.kube_reads import KubeReads
from agentrun.broker.live_view import LiveView
from agentrun.broker.refusal import Refused
from agentrun.broker.server import run_broker
from agentrun.broker.view import Kind
from agentrun.core.errors import ErrorClass, Retry
from agentrun.kube import KubeClient
from agentrun.kube.access import Access
from agentrun.settings import load_settings


def nowhere() -> KubeClient:
    """A client of an API server that does not run."""
    return KubeClient(Access("https://127.0.0.1:1", ssl.create_default_context(), lambda: "token"))


async def test_reads_without_an_answer_are_unavailable_never_empty_R16() -> None:
    async with nowhere() as kube:
        reads = KubeReads(kube, "agentrun-system")
        view = LiveView(lambda _kind, _namespace: None, reads)
        for call in (
            view.get(Kind.RUN, "a", "b", fresh=False),
            view.list(Kind.GRANT, "a", fresh=False),
            Callers(reads.review, "agentrun-system").check("Bearer x"),
            reads.secret("key"),
        ):
            with pytest.raises(Refused) as caught:
                await call
            assert (caught.value.error_class, caught.value.retry) == (ErrorClass.AUTHORITY_UNAVAILABLE, Retry.REPEAT)


class Watch:
    """A watch whose age a test sets."""

    def __init__(self, age: float, **objects: Object) -> None:
        self._age = age
        self._objects = objects

    def age(self) -> float:
        return self._age

    def get(self, _namespace: str, name: str) -> Object | None:
        return self._objects.get(name)

    def list(self, _namespace: str) -> list[Object]:
        return list(self._objects.values())


async def test_a_watch_is_believed_for_five_seconds_and_not_for_what_it_lacks_R16() -> None:
    async with nowhere() as kube:
        reads = KubeReads(kube, "agentrun-system")
        known: Object = {"metadata": {"name": "a"}}
        for age, believed in ((4.9, True), (5.1, False), (float("inf"), False)):
            watch = Watch(age, a=known)
            view = LiveView(lambda _kind, _namespace, watch=watch: watch, reads)
            if believed:
                assert await view.get(Kind.RUN, "n", "a", fresh=False) == known
                assert await view.list(Kind.GRANT, "n", fresh=False) == (known,)
            else:
                with pytest.raises(Refused):
                    await view.get(Kind.RUN, "n", "a", fresh=False)
            for asked in (("a", True), ("missing", False)):
                with pytest.raises(Refused):
                    await view.get(Kind.RUN, "n", asked[0], fresh=asked[1])


ASKED = threading.Event()


class Silent(BaseHTTPRequestHandler):
    """An API server that is starting up."""

    def do_GET(self) -> None:
        self.send_response(503)
        self.end_headers()
        ASKED.set()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


async def test_a_broker_that_waits_for_the_api_server_says_so_and_can_be_stopped(tmp_path: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kubeconfig = tmp_path / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    user = {"name": "u", "user": {"token": "CANARY-token"}}
    kubeconfig.write_text(
        json.dumps({"current-context": "c", "contexts": [context], "clusters": [cluster], "users": [user]})
    )
    settings = load_settings({}, kubeconfig=kubeconfig, gate_path=tmp_path / "gate.db", broker_port=0, health_port=0)
    stop, out = asyncio.Event(), io.StringIO()
    task = asyncio.create_task(run_broker(settings, stop, out=out))
    assert await asyncio.to_thread(ASKED.wait, 20)
    stop.set()
    await asyncio.wait_for(task, 20)
    server.shutdown()
    server.server_close()
    assert "waiting for the API server" in out.getvalue()
    assert "CANARY" not in out.getvalue()
