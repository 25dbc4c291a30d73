"""The store fails under the journal: nothing is half written, and work goes on when it is back (R4, R6)."""

import asyncio
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.integration.journal.test_journal_port import ANN, run_log
from tests.integration.postgres import PostgresServer

from agentrun.core import chain
from agentrun.core.digest import sha256_digest
from agentrun.core.events import EventRecord, SteeringAdded
from agentrun.journal import open_journal
from agentrun.journal.port import Blob, Journal, JournalUnavailable
from agentrun.journal.runlog import RunLog

MIB = 1 << 20


async def answers(journal: Journal, tries: int = 100) -> None:
    """Until the store is back; bounded."""
    for _ in range(tries):
        try:
            await journal.now()
        except JournalUnavailable:
            await asyncio.sleep(0.1)
        else:
            return
    raise TimeoutError("the store did not come back within ten seconds")


async def again(journal: Journal, run: str) -> list[EventRecord]:
    """The history, over connections some of which were cut while they lay idle."""
    for _ in range(50):
        try:
            return await journal.events(run)
        except JournalUnavailable:
            await asyncio.sleep(0.05)
    raise TimeoutError("the store did not answer")


async def steer(log: RunLog, number: int) -> bool:
    return await log.accept(
        SteeringAdded(f"s{number}", "sha256:" + "a" * 64, "NextModelCall", ANN), f"steering/s{number}"
    )


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL of this test's own: it is killed."""
    folder = Path(tempfile.mkdtemp(prefix="agentrun-postgres-"))
    folder.chmod(0o755)
    one = PostgresServer(folder)
    one.start()
    yield one
    one.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.postgres
async def test_postgresql_killed_and_started_again_keeps_what_was_recorded_and_the_journal_goes_on(
    server: PostgresServer,
) -> None:
    journal = await open_journal(server.url)
    log = await run_log(journal)
    assert await steer(log, 1)
    before = await journal.events(log.state.uid)
    server.kill()
    with pytest.raises(JournalUnavailable):
        await steer(log, 2)
    server.start()
    await answers(journal)
    assert await journal.events(log.state.uid) == before
    assert await steer(log, 2)
    chain.verify(await journal.events(log.state.uid))
    await journal.close()


@pytest.mark.postgres
async def test_connections_cut_while_many_write_lose_nothing_that_was_answered(server: PostgresServer) -> None:
    journal = await open_journal(server.url)
    logs = [await run_log(journal, str(uuid.uuid4())) for _ in range(4)]
    done: dict[str, set[str]] = {log.state.uid: set() for log in logs}

    async def write(log: RunLog) -> None:
        for number in range(40):
            for _ in range(50):
                try:
                    await steer(log, number)
                    break
                except JournalUnavailable:
                    await answers(journal)
            done[log.state.uid].add(f"steering/s{number}")

    async def cut() -> None:
        async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as connection:
            for _ in range(15):
                await asyncio.sleep(0.03)
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )

    await asyncio.gather(cut(), *(write(log) for log in logs))
    for log in logs:
        events = await again(journal, log.state.uid)
        chain.verify(events)
        keys = [event.source_key for event in events if event.source_key and event.source_key.startswith("steering/")]
        assert set(keys) == done[log.state.uid]
        assert len(keys) == len(set(keys)), "an answer that was lost is no reason to record twice"
    await journal.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_refuses_the_write_whole_and_the_journal_goes_on_when_there_is_room(small_disk: Path) -> None:
    journal = await open_journal(f"sqlite:///{small_disk}/journal.db")
    log = await run_log(journal)
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(bytes(8 * MIB))
    blob = Blob(sha256_digest(bytes(MIB)), bytes(MIB))
    before = await journal.events(log.state.uid)
    with pytest.raises(JournalUnavailable):
        await journal.put_blobs(log.state.tenant, [blob])
    assert await journal.get_blob(log.state.tenant, blob.digest) is None
    assert await journal.events(log.state.uid) == before
    filler.unlink()
    assert await steer(log, 1)
    await journal.put_blobs(log.state.tenant, [blob])
    assert await journal.get_blob(log.state.tenant, blob.digest) == blob.data
    await journal.close()
