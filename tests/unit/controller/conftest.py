"""What the controller's tests talk to."""

from collections.abc import AsyncIterator

import pytest
from tests.unit.controller.apiserver import ApiServer, serving

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
