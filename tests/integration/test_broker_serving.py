"""The server inside a process: a taken port is an error, and stopping lets requests in flight end."""

import asyncio
import socket

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from agentrun.broker.serving import CannotListen, serving

BOUND = 20.0


async def test_a_port_that_is_taken_is_an_error_not_an_exit() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(CannotListen, match=r"in use.*AGENTRUN_BROKER_PORT"),
    ):
        async with serving(Starlette(), "127.0.0.1", taken.getsockname()[1]):
            pass


async def test_stopping_lets_a_request_in_flight_end_and_takes_no_new_one() -> None:
    begun, leaving = asyncio.Event(), asyncio.Event()

    async def slow(_request: Request) -> PlainTextResponse:
        begun.set()
        await leaving.wait()
        return PlainTextResponse("done")

    async with httpx2.AsyncClient() as http:

        async def refused_now(port: int) -> None:
            """Set `leaving` only once nobody is let in any more."""
            async with asyncio.timeout(BOUND):
                while not leaving.is_set():
                    try:
                        _, writer = await asyncio.open_connection("127.0.0.1", port)
                        writer.close()
                        await asyncio.sleep(0.02)
                    except OSError:
                        leaving.set()

        async with serving(Starlette(routes=[Route("/", slow)]), "127.0.0.1", 0) as port:
            asked = asyncio.create_task(http.get(f"http://127.0.0.1:{port}/", timeout=BOUND))
            await asyncio.wait_for(begun.wait(), BOUND)
            watching = asyncio.create_task(refused_now(port))
        await watching
        assert (await asked).text == "done"
