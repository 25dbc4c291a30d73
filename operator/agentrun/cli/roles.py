"""Each process wired from its parts."""

import asyncio
import sys

from agentrun.cli.process import run_process
from agentrun.controller.operator import run_operator
from agentrun.core import chain
from agentrun.core.errors import AgentrunError
from agentrun.journal import open_journal
from agentrun.kube import KubeClient
from agentrun.settings import Settings, load_settings


def start_operator() -> None:
    """Operator alone: PostgreSQL, or SQLite with nobody else on it."""
    settings = load_settings()

    async def work(stop: asyncio.Event) -> None:
        from agentrun.controller.leader import leading  # noqa: PLC0415

        journal = await open_journal(settings.journal_url)
        try:
            async with await KubeClient.connect(settings.kubeconfig) as kube:
                await leading(kube, settings, stop, lambda ended: run_operator(settings, journal, ended, kube))
        finally:
            await journal.close()

    run_process("operator", settings, work)


def start_harness() -> None:
    """Harness alone."""
    settings = load_settings()

    async def work(stop: asyncio.Event) -> None:
        from agentrun.harness.main import run_harness  # noqa: PLC0415

        journal = await open_journal(settings.journal_url)
        try:
            async with await KubeClient.connect(settings.kubeconfig) as kube:
                await run_harness(settings, journal, stop, kube)
        finally:
            await journal.close()

    run_process("harness", settings, work)


def start_broker() -> None:
    """Broker alone; it has probes of its own."""
    from agentrun.broker.server import run_broker  # noqa: PLC0415

    settings = load_settings()
    run_process("broker", settings, lambda stop: run_broker(settings, stop), probes=False)


def start_console() -> None:
    """Read API alone."""
    settings = load_settings()

    async def work(stop: asyncio.Event) -> None:
        from agentrun.console.server import run_console  # noqa: PLC0415

        journal = await open_journal(settings.journal_url)
        try:
            async with await KubeClient.connect(settings.kubeconfig) as kube:
                await run_console(settings, journal, stop, kube)
        finally:
            await journal.close()

    run_process("console", settings, work)


def start_serve() -> None:
    """Operator, harness and read API over one journal; when one of them ends, all do."""
    settings = load_settings()
    run_process("serve", settings, lambda stop: _serve(settings, stop))


async def _serve(settings: Settings, stop: asyncio.Event) -> None:
    from agentrun.console.server import run_console  # noqa: PLC0415
    from agentrun.harness.main import run_harness  # noqa: PLC0415

    journal = await open_journal(settings.journal_url)
    try:
        async with await KubeClient.connect(settings.kubeconfig) as kube, asyncio.TaskGroup() as group:
            parts = [
                group.create_task(run_operator(settings, journal, stop, kube)),
                group.create_task(run_harness(settings, journal, stop, kube)),
                group.create_task(run_console(settings, journal, stop, kube)),
            ]
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            stop.set()
    finally:
        await journal.close()


def verify_history(run: str) -> None:
    """Whole chain of one run."""

    async def work() -> int:
        journal = await open_journal(load_settings().journal_url)
        try:
            records = await journal.events(run)
        finally:
            await journal.close()
        chain.verify(records)
        return len(records)

    try:
        count = asyncio.run(work())
    except AgentrunError as error:
        print(f"agentrun: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    print(f"{count} events hold" if count else f"no run {run} in this journal")
    raise SystemExit(0 if count else 1)
