"""`run`, and the lines and exit code of who waits for a run."""

import asyncio
import datetime as dt
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import click

from agentrun.cli.follow import changes
from agentrun.cli.newrun import Wish, manifest
from agentrun.cli.objects import full_name
from agentrun.cli.outcome import Exit, blocked, finished, standing
from agentrun.cli.session import Session, session
from agentrun.cli.writes import create_run
from agentrun.render.structured import json_text
from agentrun.render.text import line

Object = dict[str, Any]
Tell = Callable[[Object], None]


async def start_run(wish: Wish, *, wait: bool, timeout: float | None, form: str | None) -> int:
    """Create it; with `wait` stay until it is finished or blocked. Raises Refused."""
    body = manifest(wish)
    async with session() as opened:
        run = await create_run(opened, body)
        match form:
            case "json":
                click.echo(json_text(run))
            case "name":
                click.echo(full_name(run))
            case _:
                click.echo(f"{full_name(run)} created")
        if not wait:
            return Exit.COMPLETED
        # Standard output is for the format that was asked for; progress then goes to standard error.
        return await wait_for(opened, run["metadata"]["name"], timeout, Progress(err=form is not None))


async def wait_for(opened: Session, name: str, timeout: float | None, tell: Tell) -> int:
    """The exit code. An interrupt leaves the run alone and says how to cancel it."""
    where = f"-n {line(opened.namespace)} {line(name)}"
    try:
        async with asyncio.timeout(timeout):
            return await until_it_rests(opened, name, tell)
    except TimeoutError:
        click.echo(f"timed out; the run goes on: kubectl agentrun watch {where}", err=True)
        return Exit.TIMED_OUT
    except asyncio.CancelledError:
        click.echo(f"\nthe run goes on; to end it: kubectl agentrun cancel {where}", err=True)
        raise


async def until_it_rests(opened: Session, name: str, tell: Tell, *, through_blocks: bool = False) -> int:
    """Until the run is finished, or (unless `through_blocks`) nothing goes on without a person."""
    async with aclosing(changes(opened, name)) as runs:
        async for run in runs:
            tell(run)
            ended = finished(run)
            if ended is not None:
                return ended
            if blocked(run) and not through_blocks:
                click.echo(_needs(run, opened.namespace), err=True)
                return Exit.BLOCKED
    return Exit.ERROR


def _needs(run: Object, namespace: str) -> str:
    state, reason, _ = standing(run)
    name = line(run["metadata"]["name"])
    return (
        f"the run waits for a person ({line(state)}, {line(reason)}); "
        f"what it needs: kubectl agentrun explain -n {line(namespace)} {name}"
    )


class Progress:
    """Prints a line when a run's state, reason or detail differs from the line before; `named`: of several runs."""

    def __init__(self, *, err: bool = False, named: bool = False) -> None:
        self._err = err
        self._named = named
        self._shown: dict[str, tuple[str, str, str]] = {}

    def __call__(self, run: Object) -> None:
        """Each value is a line's part: none can forge a line."""
        meta, now = run["metadata"], standing(run)
        if self._shown.get(meta["uid"]) == now:
            return
        self._shown[meta["uid"]] = now
        state, reason, detail = map(line, now)
        name = f"{line(meta['name']):<30} " if self._named else ""
        clock = f"{dt.datetime.now(dt.UTC).astimezone():%H:%M:%S}"
        click.echo(f"{clock}  {name}{state:<20} {reason:<20} {detail}".rstrip(" "), err=self._err)


async def watch_runs(name: str | None) -> int:
    """One run until it is finished; without a name all of the namespace until interrupted."""
    async with session() as opened:
        tell = Progress(named=name is None)
        if name:
            return await until_it_rests(opened, name, tell, through_blocks=True)
        async with aclosing(changes(opened)) as runs:
            async for run in runs:
                tell(run)
    return Exit.COMPLETED
