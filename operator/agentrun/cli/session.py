"""One verb's work: the caller's own connection to the API server, and what becomes of errors."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import click

from agentrun.cli.kubeconfig import choose
from agentrun.cli.outcome import Exit
from agentrun.core.errors import AgentrunError
from agentrun.kube.access import access
from agentrun.kube.client import KubeClient
from agentrun.render.text import block

OPERATOR_NAMESPACE = "agentrun-system"


class Session:
    """`namespace` is where the caller's runs are; `kube` acts as the caller."""

    def __init__(self, kube: KubeClient, namespace: str, operator_namespace: str, options: dict[str, str]) -> None:
        self.kube = kube
        self.namespace = namespace
        self.operator_namespace = operator_namespace
        self._options = options

    async def sign_in_again(self) -> None:
        """A long watch outlives the token a credential plugin gave: ask the kubeconfig once more."""
        fresh, _ = await _connect(self._options)
        old, self.kube = self.kube, fresh
        await old.close()


@asynccontextmanager
async def session() -> AsyncGenerator[Session]:
    """Of the options of the verb that runs now. Raises BadKubeconfig, NoCluster."""
    options = cast("dict[str, str]", click.get_current_context().ensure_object(dict))
    kube, namespace = await _connect(options)
    opened = Session(kube, namespace, options.get("operator_namespace") or OPERATOR_NAMESPACE, options)
    try:
        yield opened
    finally:
        await opened.kube.close()


async def _connect(options: dict[str, str]) -> tuple[KubeClient, str]:
    choice = choose(options.get("kubeconfig"), options.get("context"), options.get("namespace"))
    where = await access(choice.files, choice.context)
    return KubeClient(where), choice.namespace or where.namespace


def run_verb(work: Coroutine[Any, Any, int]) -> None:
    """End the process with the verb's exit code; an error of ours is a line on standard error and code 1."""
    try:
        code = asyncio.run(work)
    except AgentrunError as error:
        click.echo(f"error: {block(error)}", err=True)
        code = Exit.ERROR
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    sys.exit(code)
