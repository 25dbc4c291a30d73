"""Nodes without image volumes: the guard copies the tool server into the sandbox (R20)."""

from collections.abc import Iterator

import pytest
from tests.cluster.fixtures import Kubectl
from tests.e2e.conftest import Tenant
from tests.e2e.install import install


@pytest.fixture(scope="module")
def copying(installed: Kubectl) -> Iterator[Kubectl]:
    """The chart with `toolServer.mount=copy`; switched back afterwards."""
    install(installed, "toolServer.mount=copy")
    yield installed
    install(installed)


def test_the_same_runs_complete_without_an_image_volume(copying: Kubectl, namespace: Kubectl) -> None:
    assert copying.kubeconfig == namespace.kubeconfig
    tenant = Tenant(namespace)
    for name in ("busybox", "noshell"):
        tenant.apply(name)
    volumes: dict[str, set[str]] = {}
    for name in ("busybox", "noshell"):
        tenant.state(name, "completed", 120)
    tenant.apply("hung-tool")
    tenant.state("hung-tool", "waiting_tool")
    for volume in tenant.pods()[0]["spec"]["volumes"]:
        volumes[volume["name"]] = volume.keys() - {"name"}
    assert volumes["toolserver"] == {"emptyDir"}
    tenant.patch("hung-tool", '{"stop":{"mode":"Kill"}}')
    assert tenant.finished("hung-tool")["reason"] == "Killed"
