"""The verbs against a real HTTPS socket."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.cli.cluster import Cluster, start

from agentrun.cli.people import people

Verb = Callable[..., Result]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """State of the API server; watches end with the test."""
    made = Cluster()
    yield made
    with made.changed:
        made.closing = True
        made.changed.notify_all()


@pytest.fixture
def kubeconfig(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """KUBECONFIG of a caller of that server; no other is in reach."""
    server, path = start(tmp_path, cluster)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("AGENTRUN_OPERATOR_NAMESPACE", raising=False)
    yield path
    server.shutdown()
    server.server_close()


@pytest.fixture
def verb(kubeconfig: Path) -> Verb:
    """`verb("get", "-o", "json")`: run it, as a process would; what is not a clean exit fails the test."""
    assert kubeconfig.exists()

    def run(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(people, arguments, input=stdin, prog_name="kubectl agentrun")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run
