"""AgentRuns as the API server has them, and `kubectl agentrun get`."""

import datetime as dt
from typing import Any
from urllib.parse import quote

import click

from agentrun.cli.outcome import standing
from agentrun.cli.plain import Refused, run_refused
from agentrun.cli.session import Session, session
from agentrun.kube.errors import KubeError
from agentrun.kube.reading import member
from agentrun.kube.resources import GROUP, RUNS
from agentrun.render.moments import age_since
from agentrun.render.structured import json_text, yaml_text
from agentrun.render.table import table
from agentrun.render.text import line

Object = dict[str, Any]
HEADER = ("NAME", "STATE", "REASON", "DEFINITION", "AGE")


async def find_run(opened: Session, name: str) -> Object:
    """Raises Refused: none of that name, or not for this caller."""
    try:
        return await opened.kube.get(RUNS, quote(name, safe=""), opened.namespace)
    except KubeError as error:
        raise run_refused(error, opened.namespace, name) from error


async def get_runs(name: str | None, form: str | None) -> int:
    """One run or all of the namespace."""
    async with session() as opened:
        if name:
            found = await find_run(opened, name)
            click.echo(shown([found], form, one=True))
            return 0
        try:
            items, _ = await opened.kube.list(RUNS, opened.namespace)
        except KubeError as error:
            raise run_refused(error, opened.namespace) from error
        if not items and form is None:
            click.echo(f"there are no agent runs in namespace {line(opened.namespace)}", err=True)
        elif items or form in ("json", "yaml"):
            click.echo(shown(items, form, one=False))
    return 0


def shown(items: list[Object], form: str | None, *, one: bool) -> str:
    """In one of kubectl's formats; None is the table."""
    plain = [_without_managed_fields(item) for item in items]
    whole: Object = plain[0] if one else {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": plain}
    match form:
        case "json":
            return json_text(whole)
        case "yaml":
            return yaml_text(whole).removesuffix("\n")
        case "name":
            return "\n".join(full_name(item) for item in items)
        case None:
            return table(HEADER, [_row(item) for item in items])
        case _:
            raise Refused(f"unknown format {form}")


def full_name(run: Object) -> str:
    """`agentrun.agentrun.dev/NAME`, as `kubectl -o name` writes it."""
    return f"agentrun.{GROUP}/{line(run['metadata']['name'])}"


def _without_managed_fields(item: Object) -> Object:
    """As kubectl leaves them out: they are long and nobody reads them."""
    meta = {key: value for key, value in member(item, "metadata").items() if key != "managedFields"}
    order = ("apiVersion", "kind", "metadata", "spec", "status")
    ordered = {key: item[key] for key in order if key in item}
    return ordered | {"metadata": meta} | {key: value for key, value in item.items() if key not in order}


def _row(run: Object) -> tuple[object, ...]:
    meta = run["metadata"]
    state, reason, _ = standing(run)
    definition = member(member(run, "spec"), "definitionRef").get("name", "")
    age = age_since(meta.get("creationTimestamp"), dt.datetime.now(dt.UTC))
    return (meta["name"], state, reason, definition, age)
