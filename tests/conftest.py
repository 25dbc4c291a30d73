"""Fixtures every suite shares. `figure` collects counts that prove something (design 10)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
FIGURES = pytest.StashKey[dict[str, dict[str, object]]]()

# A slow machine is no failure; examples are the same in every run.
settings.register_profile("agentrun", deadline=None, derandomize=True)
settings.load_profile("agentrun")

pytest_plugins = ["tests.cluster.fixtures", "tests.integration.postgres", "tests.integration.pgbouncer"]


def pytest_configure(config: pytest.Config) -> None:
    """Start a run's table of figures."""
    config.stash[FIGURES] = {}


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, int | float], None]:
    """`figure(name, value)`: record a count of what happened in this run; never a typed-in number."""

    def record(name: str, value: int | float) -> None:
        request.config.stash[FIGURES][name] = {"value": value, "test": request.node.nodeid}

    return record


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write build/figures.json, keeping the figures of the other parts of the same `make test`."""
    figures = session.config.stash[FIGURES]
    if not figures:
        return
    path = ROOT / "build" / "figures.json"
    path.parent.mkdir(exist_ok=True)
    kept = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**kept, **figures}, indent=2, sort_keys=True) + "\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """End the run with the table of its figures."""
    figures = config.stash[FIGURES]
    if not figures:
        return
    terminalreporter.section("figures")
    for name in sorted(figures):
        terminalreporter.write_line(f"{name:<32} {figures[name]['value']:>10}   {figures[name]['test']}")
