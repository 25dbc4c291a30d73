"""The same journal tests on both stores, PostgreSQL also behind a pooler in transaction mode (C65)."""

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.integration.postgres import PostgresServer

from agentrun.journal import open_journal
from agentrun.journal.port import Journal


@pytest.fixture(
    params=["sqlite", *(pytest.param(name, marks=pytest.mark.postgres) for name in ("postgres", "pgbouncer"))]
)
def journal_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of an empty journal on each store in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/journal.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = f"j{uuid.uuid4().hex[:12]}"
    direct = server.database(name)
    yield request.getfixturevalue("pgbouncer").url(name) if request.param == "pgbouncer" else direct
    server.drop(name)


@pytest.fixture
async def journal(journal_url: str) -> AsyncIterator[Journal]:
    """An open, empty journal."""
    opened = await open_journal(journal_url)
    yield opened
    await opened.close()
