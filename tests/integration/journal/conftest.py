"""The same journal tests on both stores."""

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.integration.postgres import PostgresServer

from agentrun.journal import open_journal
from agentrun.journal.port import Journal


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def journal_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of an empty journal on each store in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/journal.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = f"j{uuid.uuid4().hex[:12]}"
    yield server.database(name)
    server.drop(name)


@pytest.fixture
async def journal(journal_url: str) -> AsyncIterator[Journal]:
    """An open, empty journal."""
    opened = await open_journal(journal_url)
    yield opened
    await opened.close()
