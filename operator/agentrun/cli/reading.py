"""explain, events, artifacts: what the journal says of a run (R1, R27)."""

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import click

from agentrun.cli.plain import Refused
from agentrun.cli.readapi import Away, ReadApi
from agentrun.cli.session import session
from agentrun.render.explain import explain_text
from agentrun.render.moments import moment
from agentrun.render.structured import json_text
from agentrun.render.table import table
from agentrun.render.text import block, shortened

Object = dict[str, Any]
BODY_SHOWN = 200
# A short wait after news, for an end that may follow at once; then long ones.
SHORT_WAIT, LONG_WAIT = 1, 20
PATIENCE = 30
PAUSE = 0.2  # should an answer not have waited
RETRY_SECONDS = 2.0


async def explain_run(run: str, form: str | None) -> int:
    """The seven questions of R1."""
    async with session() as opened:
        answer = await ReadApi(opened).explain(run)
    click.echo(json_text(answer) if form == "json" else explain_text(answer))
    return 0


# --- events --------------------------------------------------------------------------------------------------------


async def show_events(run: str, form: str | None, *, follow: bool) -> int:
    """One line per event; with `follow` until the run is finished and quiet."""
    async with session() as opened:
        reader = ReadApi(opened)
        async with aclosing(_followed(reader, run) if follow else _recorded(reader, run)) as events:
            async for event in events:
                click.echo(json_text(event, indent=None) if form == "json" else _event_line(event))
    return 0


async def _recorded(reader: ReadApi, run: str, after: int = 0) -> AsyncGenerator[Object]:
    """Every event there is now."""
    while items := await reader.events(run, after):
        for event in items:
            after = _next(event, after)
            yield event


async def _followed(reader: ReadApi, run: str) -> AsyncGenerator[Object]:
    """By UID from the start: another run may take the name meanwhile."""
    uid, after, wait, tries = str((await reader.explain(run))["run"]["uid"]), 0, 0, 0
    while True:
        try:
            items = await reader.events(uid, after, wait)
            if not items and (await reader.explain(uid))["run"]["terminal"]:
                return
        except Away:
            tries += 1
            if tries > PATIENCE:
                raise
            await asyncio.sleep(RETRY_SECONDS)
            continue
        tries, wait = 0, SHORT_WAIT if items else LONG_WAIT
        await asyncio.sleep(0 if items else PAUSE)
        for event in items:
            after = _next(event, after)
            yield event


def _next(event: Object, after: int) -> int:
    """An answer that goes back would be read for ever."""
    seq = int(event["seq"])
    if seq <= after:
        raise Refused(f"the read API gave event {seq} after event {after}: its answer cannot be trusted")
    return seq


def _event_line(event: Object) -> str:
    body = json_text(event.get("body"), indent=None)
    seq, at, kind = event["seq"], moment(int(event.get("recordedAt") or 0)), event.get("kind", "")
    return f"{seq:>5}  {at}  {shortened(kind, 64):<22} {shortened(body, BODY_SHOWN)}"


# --- artifacts -----------------------------------------------------------------------------------------------------


async def list_artifacts(run: str) -> int:
    """A table."""
    async with session() as opened:
        items = await ReadApi(opened).artifacts(run)
    if not items:
        click.echo("the run has no artifacts", err=True)
        return 0
    names = ("name", "sizeBytes", "mediaType", "digest")
    rows = [[item.get(name, "") for name in names] for item in items]
    click.echo(table(("NAME", "BYTES", "MEDIA-TYPE", "DIGEST"), rows))
    return 0


async def fetch_artifact(run: str, name: str, target: Path | None) -> int:
    """To a file or standard output, only after its bytes proved to be the ones the journal names."""
    async with session() as opened:
        reader = ReadApi(opened)
        recorded = {item["name"]: item["digest"] for item in await reader.artifacts(run)}
        if name not in recorded:
            raise Refused(f"the run has no artifact {name}: it has {', '.join(recorded) or 'none'}")
        content, claimed = await reader.artifact(run, name)
    found = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if found != recorded[name] or claimed not in (None, found):
        raise Refused(
            f"artifact {name} is refused, nothing was written: its bytes have digest {found}, "
            f"the journal names {recorded[name]}, the answer claims {claimed or 'none'}"
        )
    if target is None:
        _to_standard_output(content)
    else:
        _to_file(content, target)
    return 0


def _to_standard_output(content: bytes) -> None:
    """Exact bytes into a pipe or file; for a terminal text that cannot steer it."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("the artifact is no text: write it to a file with --output FILE") from None
    click.echo(block(text), nl=not text.endswith("\n"))


def _to_file(content: bytes, target: Path) -> None:
    """Whole or not at all; what is no file (a device, a pipe) is written to, never replaced."""
    try:
        place = target.resolve()
        if place.exists() and not place.is_file():
            place.write_bytes(content)
            return
        part = place.with_name(f".{place.name[:100]}.{os.getpid()}.part")
        try:
            part.write_bytes(content)
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise Refused(f"{target} cannot be written: {error.strerror}") from None
