"""Runs as they change: a watch that survives an API server's restart, an expired position and an expired credential."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from agentrun.cli.plain import Refused, run_refused
from agentrun.cli.session import Session
from agentrun.kube.errors import Expired, KubeError, Unavailable
from agentrun.kube.resources import RUNS

Object = dict[str, Any]
WATCH_SECONDS = 300
RETRY_SECONDS = 1.0


class RunGone(Refused):
    """The run was deleted while it was looked at."""


async def changes(opened: Session, name: str | None = None) -> AsyncGenerator[Object]:
    """Each run now, then each as it changes. With `name` only that run; ends with RunGone when it is deleted.

    Raises Refused at the start (no such run, not for this caller); later only where a repetition cannot help.
    """
    followed = await _listed(opened, name)
    uid = followed[0][0]["metadata"]["uid"] if name else None
    while True:
        items, version = followed
        for item in items:
            yield _same(item, uid)
        async for item in _watched(opened, version, name):
            yield _same(item, uid)
        followed = await _listed_again(opened, name)


def _same(item: Object, uid: str | None) -> Object:
    if uid is not None and item["metadata"]["uid"] != uid:
        raise RunGone(f"run {item['metadata']['name']} was deleted; another one has its name now")
    return item


async def _listed(opened: Session, name: str | None) -> tuple[list[Object], str]:
    query = {"fieldSelector": f"metadata.name={name}"} if name else {}
    try:
        page = await opened.kube.request("GET", RUNS.path(opened.namespace), query=query)
    except Unavailable:
        raise
    except KubeError as error:
        raise run_refused(error, opened.namespace, name or "") from error
    items: list[Object] = page.get("items") or []
    if name and not items:
        raise RunGone(f'there is no run "{name}" in namespace "{opened.namespace}": `kubectl agentrun get` lists them')
    return items, str(page["metadata"]["resourceVersion"])


async def _listed_again(opened: Session, name: str | None) -> tuple[list[Object], str]:
    """Waits for as long as the API server is away: who follows a run for hours outlives its upgrade."""
    while True:
        try:
            return await _listed(opened, name)
        except Unavailable:
            await asyncio.sleep(RETRY_SECONDS)
        except Refused as error:
            if not isinstance(error.__cause__, KubeError) or error.__cause__.status != 401:
                raise
            await opened.sign_in_again()
            return await _listed(opened, name)


async def _watched(opened: Session, version: str, name: str | None) -> AsyncGenerator[Object]:
    """Until the watch ends, for whatever reason; the caller lists again."""
    try:
        async with opened.kube.watch(RUNS, version, namespace=opened.namespace, seconds=WATCH_SECONDS) as events:
            async for event in events:
                item = event["object"]
                if event["type"] == "ERROR":
                    return
                if event["type"] == "BOOKMARK" or (name and item["metadata"]["name"] != name):
                    continue
                if event["type"] == "DELETED" and name:
                    raise RunGone(f"run {name} was deleted")
                yield item
    except Unavailable:
        await asyncio.sleep(RETRY_SECONDS)
    except Expired:
        return
    except KubeError as error:
        if error.status != 401:
            raise run_refused(error, opened.namespace, name or "") from error
