"""kopf as the watch engine, and nothing more: it lists, watches, reconnects; every event goes into our own cache.

The only module that imports kopf. It runs in a thread with a loop of its own: on exit kopf cancels every task of its
loop (nolar/kopf#1030). Only `on.event` handlers: no annotations, no finalizers, no patches, ever (lessons 3).
"""

import asyncio
import contextlib
import datetime as dt
import threading
from collections.abc import Callable, Mapping
from typing import Any

import kopf

from agentrun.controller.names import DEFINITION_LABEL, SANDBOX_LABEL
from agentrun.kube.access import Access

Object = dict[str, Any]
OnEvent = Callable[[str, str | None, Object], None]
GROUP = "agentrun.dev"
VERSION = "v1alpha1"
WATCHED = (
    (GROUP, VERSION, "agentruns"),
    (GROUP, VERSION, "agentdefinitions"),
    (GROUP, VERSION, "agentclasses"),
    (GROUP, VERSION, "toolgrants"),
    (GROUP, VERSION, "toolapprovals"),
    ("apps", "v1", "controllerrevisions"),
    ("", "v1", "pods"),
    ("", "v1", "nodes"),
)
SELECTED = {"pods": f"{SANDBOX_LABEL}=true", "controllerrevisions": DEFINITION_LABEL}


class Watcher:
    """Watches in a thread; `on_event(plural, type, object)` is called on the owner's loop."""

    def __init__(self, access: Access, namespaces: tuple[str, ...], on_event: OnEvent) -> None:
        self._access = access
        self._namespaces = namespaces
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="watches", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    async def ended(self) -> None:
        """Return when the watches have ended, asked for or not: the process is then of no use."""
        await self._ended.wait()

    async def stop(self) -> None:
        """End the watches."""
        self._stop.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), 10)

    def _run(self) -> None:
        try:
            asyncio.run(self._operate())
        finally:
            self._loop.call_soon_threadsafe(self._ended.set)

    async def _operate(self) -> None:
        await kopf.operator(
            registry=self._registry(),
            settings=_settings(),
            standalone=True,
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            stop_flag=self._stop,
        )

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(self._login)
        for group, version, plural in WATCHED:
            kopf.on.event(group, version, plural, registry=registry)(self._handler(plural))
        return registry

    def _handler(self, plural: str) -> Callable[..., Any]:
        async def handle(event: Mapping[str, Any], **_: Any) -> None:
            found: Object = dict(event["object"])
            self._loop.call_soon_threadsafe(self._on_event, plural, event["type"], found)

        return handle

    def _login(self, **_: Any) -> kopf.ConnectionInfo:
        access = self._access
        token = access.token()
        return kopf.ConnectionInfo(
            server=access.server,
            ca_path=access.ca_file,
            insecure=not access.verify,
            certificate_path=access.certificate_file,
            private_key_path=access.key_file,
            token=token,
            # Projected tokens are rotated: log in again before this one ends.
            expiration=dt.datetime.now(dt.UTC) + dt.timedelta(minutes=10) if token else None,
        )


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.watching.server_timeout = 300
    settings.watching.connect_timeout = 10
    settings.watching.inactivity_timeout = 70
    settings.watching.chunk_size = 500
    for plural, selector in SELECTED.items():
        settings.watching.label_selectors[plural] = selector
    settings.queueing.worker_limit = None  # a limit can deadlock (nolar/kopf#1243)
    return settings
