"""Results under a fence, on both stores: PostgreSQL writes each as one statement, and nothing tells them apart (R6)."""

import uuid

import pytest
from msgspec.structs import replace
from tests.histories import BLOB, created, dispatched, replied

from agentrun.core import chain
from agentrun.core.digest import sha256_digest
from agentrun.core.events import LeaseTaken, RunAdmitted, encode
from agentrun.journal.operations import BlobMismatch
from agentrun.journal.port import Append, Blob, FenceLost, HeadMoved, Journal, PendingCommand, RunNotFound
from agentrun.journal.runlog import RunLog

BYTES = bytes(range(256)) + "\ud800".encode("utf-8", "surrogatepass")


def clock() -> int:
    """Microseconds UTC, standing still."""
    return 1_700_000_000_000_000


async def leased(journal: Journal) -> tuple[RunLog, int]:
    """A run that is admitted and taken, and the fence."""
    log = await RunLog.create(journal, clock, replace(created(), uid=str(uuid.uuid4())), "ann")
    await log.accept(RunAdmitted(), "admit")
    lease = await journal.lease("w1", 30)
    assert lease is not None
    return log, lease.fence


def result(log: RunLog, fence: int) -> Append:
    """One event at the head, under the fence."""
    record = chain.link(
        encode(LeaseTaken("w1")), run=log.state.uid, seq=log.seq + 1, fence=fence, recorded_at=1, prev_hash=log.hash
    )
    return Append(log.state.uid, log.seq, fence, (record,))


async def test_a_result_keeps_every_byte_of_events_commands_and_content_C64(journal: Journal) -> None:
    log, fence = await leased(journal)
    plain = result(log, fence)
    record = replace(plain.events[0], body=BYTES)
    command = PendingCommand("x#1", "CallModel", BYTES, 7)
    blobs = (Blob(sha256_digest(BYTES), BYTES), Blob(sha256_digest(b""), b""))
    await journal.append(
        replace(plain, events=(record,), issued=(command,), finished=("t1#1",), blobs=(*blobs, *blobs))
    )
    assert (await journal.events(log.state.uid, after=log.seq)) == [record]
    assert await journal.commands(log.state.uid) == [command]
    assert [await journal.get_blob(log.state.tenant, blob.digest) for blob in blobs] == [BYTES, b""]


async def test_a_result_that_is_refused_says_why_and_writes_nothing_R11(journal: Journal) -> None:
    log, fence = await leased(journal)
    good = result(log, fence)
    blob = Blob(sha256_digest(b"kept?"), b"kept?")
    refused = {
        FenceLost: replace(good, fence=fence + 1, expected_seq=99, blobs=(blob,)),
        HeadMoved: replace(good, expected_seq=99, blobs=(blob,)),
        RunNotFound: replace(good, run="no-such-run", blobs=(blob,)),
        BlobMismatch: replace(good, blobs=(Blob(BLOB, b"other bytes"),)),
    }
    for error, append in refused.items():
        with pytest.raises(error):
            await journal.append(append)
    head = await journal.head(log.state.uid)
    assert head is not None
    assert (head.seq, head.hash) == (log.seq, log.hash)
    assert len(await journal.events(log.state.uid)) == log.seq
    assert await journal.get_blob(log.state.tenant, blob.digest) is None


async def test_a_command_that_is_issued_again_is_the_new_one(journal: Journal) -> None:
    log, fence = await leased(journal)
    await journal.append(replace(result(log, fence), issued=(PendingCommand("t1#1", "CallModel", b"{}", 5),)))
    assert [command.not_before for command in await journal.commands(log.state.uid)] == [5]


async def test_the_last_result_leaves_no_command_R3(journal: Journal) -> None:
    log, fence = await leased(journal)
    await log.record([], fence, then=lambda _state: [dispatched("t1")])
    await log.record([replied("t1")], fence)
    assert log.state.terminal
    assert await journal.commands(log.state.uid) == []
