"""The console's process: what it serves, and how it ends (decision 0004)."""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import structlog.testing
from tests.integration.console_world import BOUND, CLUSTER, MINE, OURS, OURS_TOKEN, World
from tests.unit.controller import apiserver
from tests.unit.controller.apiserver import ApiServer

from agentrun.broker.serving import CannotListen
from agentrun.console.server import run_console
from agentrun.console.viewers import HEADER
from agentrun.journal.sqlite import SqliteJournal
from agentrun.kube import KubeClient
from agentrun.settings import Settings


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[tuple[World, KubeClient]]:
    """A journal with one run, and a cluster of one tenant; nothing serves yet."""
    cluster = ApiServer()
    for name, uid in (("kube-system", CLUSTER), ("team-a", OURS.namespace_uid)):
        cluster.put(f"/api/v1/namespaces/{name}", {"metadata": {"name": name, "uid": uid}})
    journal = SqliteJournal.open(tmp_path / "journal.db")
    found = World(journal, cluster, tmp_path / "journal.db")
    cluster.rules.append(found.review)
    await found.run(MINE)
    async with apiserver.serving(cluster) as kube:
        yield found, kube
    await journal.close()


@contextlib.asynccontextmanager
async def process(world: World, kube: KubeClient, stop: asyncio.Event) -> AsyncIterator[int]:
    """The console on a port of the system's choice, which it logs; ended in any case."""
    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(run_console(Settings(read_port=0), world.journal, stop, kube))
        try:
            async with asyncio.timeout(BOUND):
                while not logs and not task.done():  # noqa: ASYNC110 - a log has no event
                    await asyncio.sleep(0.01)
            yield int(logs[0]["port"])
        finally:
            stop.set()
            await task


def unchecked() -> ssl.SSLContext:
    """As the API server's service proxy: it checks no certificate."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls


async def test_it_serves_https_with_a_certificate_of_its_own(world: tuple[World, KubeClient]) -> None:
    async with process(*world, asyncio.Event()) as port:
        async with httpx2.AsyncClient(base_url=f"https://127.0.0.1:{port}", verify=unchecked()) as http:
            answer = await http.get("/v1/runs", headers={HEADER: OURS_TOKEN}, timeout=BOUND)
            assert [run["uid"] for run in answer.json()["items"]] == [MINE]
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            with pytest.raises(httpx2.HTTPError):
                await http.get("/v1/runs", headers={HEADER: OURS_TOKEN}, timeout=BOUND)


async def test_it_ends_at_once_and_answers_who_waits(world: tuple[World, KubeClient]) -> None:
    """A follower holds its request for up to 30 s; a process that is told to go has no such time."""
    stop = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        port = await stack.enter_async_context(process(*world, stop))
        http = await stack.enter_async_context(
            httpx2.AsyncClient(base_url=f"https://127.0.0.1:{port}", verify=unchecked())
        )
        path = f"/v1/runs/{MINE}/events?after=2&wait=30"
        waiting = asyncio.create_task(http.get(path, headers={HEADER: OURS_TOKEN}, timeout=BOUND))
        done, _ = await asyncio.wait({waiting}, timeout=0.7)
        assert not done
        began = time.monotonic()
        stop.set()
        answer = await waiting
        assert (answer.status_code, answer.json()) == (200, {"items": [], "next": 2})
        assert time.monotonic() - began < 5
    assert time.monotonic() - began < 10  # below the 15 s that requests in flight would get


async def test_a_taken_port_is_told_with_its_setting(world: tuple[World, KubeClient]) -> None:
    found, kube = world
    with socket.create_server(("0.0.0.0", 0)) as taken:
        settings = Settings(read_port=taken.getsockname()[1])
        with pytest.raises(CannotListen, match="AGENTRUN_READ_PORT"):
            await run_console(settings, found.journal, asyncio.Event(), kube)
