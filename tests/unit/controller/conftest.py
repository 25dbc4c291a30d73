"""What the controller's tests talk to."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.controller.apiserver import ApiServer, serving
from tests.unit.controller.bench import Bench, bench

from agentrun.kube import KubeClient


@pytest.fixture
async def api() -> ApiServer:
    """State of the API server."""
    return ApiServer()


@pytest.fixture
async def kube(api: ApiServer) -> AsyncIterator[KubeClient]:
    """A client of it."""
    async with serving(api) as client:
        yield client


@pytest.fixture
async def one(api: ApiServer, kube: KubeClient, tmp_path: Path) -> AsyncIterator[Bench]:
    """An operator with one run."""
    async with bench(api, kube, tmp_path) as made:
        yield made
