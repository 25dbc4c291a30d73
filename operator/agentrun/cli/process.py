"""What every process does around its work: logging, signals, probes, one line and an exit code when it cannot go on."""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Generator

import structlog
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agentrun.core.errors import AgentrunError
from agentrun.settings import Settings

Work = Callable[[asyncio.Event], Awaitable[None]]


def configure_logging(level: str) -> None:
    """JSON lines on standard error."""
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    logging.basicConfig(
        level=max(number, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def run_process(name: str, settings: Settings, work: Work, *, probes: bool = True) -> None:
    """Run until SIGTERM or SIGINT, or until the work ends; an error of ours is one line and exit code 1."""
    configure_logging(settings.log_level)
    try:
        asyncio.run(_run(name, settings, work, probes=probes))
    except* AgentrunError as group:
        for error in _leaves(group):
            print(f"agentrun {name}: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def _leaves(group: BaseExceptionGroup[AgentrunError]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


async def _run(name: str, settings: Settings, work: Work, *, probes: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    structlog.get_logger().info("starting", process=name)
    async with asyncio.TaskGroup() as group:
        server = group.create_task(_probes(settings.health_port, stop)) if probes else None
        try:
            await work(stop)
        finally:
            stop.set()
            if server is not None:
                await server
    structlog.get_logger().info("stopped", process=name)


async def _probes(port: int, stop: asyncio.Event) -> None:
    async def healthy(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    routes = [Route("/healthz", healthy), Route("/readyz", healthy), Route("/metrics", metrics)]
    config = uvicorn.Config(Starlette(routes=routes), host="0.0.0.0", port=port, log_config=None, access_log=False)  # noqa: S104
    server = _Server(config)
    task = asyncio.create_task(server.serve())
    waiter = asyncio.create_task(stop.wait())
    await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    waiter.cancel()
    await task


class _Server(uvicorn.Server):
    """Signals stay the process's own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
