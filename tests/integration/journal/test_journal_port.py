"""What every journal must do, on SQLite and on PostgreSQL (R3, R4, R6, R11)."""

import asyncio
import time
import uuid

import pytest
from msgspec.structs import replace
from tests.histories import BLOB, RUN, created, dispatched, replied

from agentrun.core import chain
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import AgentrunError, CorruptHistory, Retry
from agentrun.core.events import (
    Actor,
    LeaseTaken,
    ModeChanged,
    RunAdmitted,
    RunCreated,
    StepAbandoned,
    StopRequested,
)
from agentrun.core.ids import Tenant
from agentrun.core.plan import RunPlan
from agentrun.core.state import encode_state
from agentrun.journal.port import (
    AlreadyAccepted,
    Append,
    Blob,
    Checkpoint,
    FenceLost,
    HeadMoved,
    Journal,
    Lease,
    RunNotFound,
)
from agentrun.journal.runlog import RunLog

ANN = Actor("ann")
NASTY = [
    b"\x00",
    b"a\x00b",
    "\ud800".encode("utf-8", "surrogatepass"),
    "naïve".encode("utf-16"),
    bytes(range(256)),
    b"",
]


def clock() -> int:
    """Microseconds UTC."""
    return time.time_ns() // 1000


async def run_log(journal: Journal, uid: str = RUN, *, admitted: bool = True, plan: RunPlan | None = None) -> RunLog:
    """A journalled run."""
    log = await RunLog.create(journal, clock, replace(created(plan), uid=uid), "ann")
    if admitted:
        await log.accept(RunAdmitted(), "admit")
    return log


async def taken_by(owner: str, journal: Journal) -> Lease:
    """The lease once it is free; bounded."""
    for _ in range(200):
        lease = await journal.lease(owner, 30)
        if lease is not None:
            return lease
        await asyncio.sleep(0.02)
    raise AssertionError("the lease was never free")


async def test_a_run_is_created_once_whoever_comes_first_C10(journal: Journal) -> None:
    first, second = await asyncio.gather(run_log(journal, admitted=False), run_log(journal, admitted=False))
    assert (first.seq, first.hash) == (second.seq, second.hash) == (1, first.hash)
    assert len(await journal.events(RUN)) == 1


async def test_history_and_state_are_the_same_after_loading_R2(journal: Journal) -> None:
    log = await run_log(journal)
    loaded = await RunLog.load(journal, clock, RUN)
    assert encode_state(loaded.state) == encode_state(log.state)
    assert (loaded.seq, loaded.hash) == (log.seq, log.hash)
    assert [command.id for command in await journal.commands(RUN)] == ["t1#1"]


async def test_an_unknown_run_is_not_found(journal: Journal) -> None:
    with pytest.raises(RunNotFound):
        await RunLog.load(journal, clock, "no-such-run")
    record = (await run_log(journal)).state
    lone = chain.link(_event(), run="no-such-run", seq=1, fence=0, recorded_at=1, prev_hash=chain.GENESIS)
    with pytest.raises(RunNotFound):
        await journal.append(Append("no-such-run", 0, None, (lone,)))
    assert record.uid == RUN


def _event() -> object:
    from agentrun.core.events import encode

    return encode(ModeChanged(paused=True, generation=1, actor=ANN))


async def test_a_fact_is_accepted_once_per_source_key(journal: Journal) -> None:
    log = await run_log(journal)
    assert await log.accept(ModeChanged(paused=True, generation=2, actor=ANN), "spec/2/operatingMode")
    assert not await log.accept(ModeChanged(paused=False, generation=9, actor=ANN), "spec/2/operatingMode")
    assert log.state.paused
    assert [record.source_key for record in await journal.events(RUN)] == ["create", "admit", "spec/2/operatingMode"]


async def test_of_two_who_append_at_one_head_exactly_one_wins(journal: Journal) -> None:
    log = await run_log(journal)
    links = [
        chain.link(_event(), run=RUN, seq=3, fence=0, recorded_at=clock(), prev_hash=log.hash)  # type: ignore[arg-type]
        for _ in range(8)
    ]
    results = await asyncio.gather(
        *(journal.append(Append(RUN, 2, None, (record,))) for record in links), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["HeadMoved"] * 7 + ["NoneType"]
    assert HeadMoved.retry is Retry.RELOAD


async def test_facts_and_results_meet_at_the_head_and_none_is_lost(journal: Journal) -> None:
    await run_log(journal)
    lease = await journal.lease("w1", 30)
    assert lease is not None
    worker, operator = await RunLog.load(journal, clock, RUN), await RunLog.load(journal, clock, RUN)
    await operator.accept(ModeChanged(paused=True, generation=2, actor=ANN), "spec/2/operatingMode")
    seen = await worker.record([LeaseTaken("w1")], lease.fence)
    assert [record.kind for record in seen] == ["ModeChanged", "LeaseTaken"]
    assert worker.state.paused
    chain.verify(await journal.events(RUN))


async def test_a_lease_goes_to_one_owner_and_the_fence_rises_only_with_the_hands_R11(journal: Journal) -> None:
    await run_log(journal)
    first = await journal.lease("w1", 30)
    assert first is not None
    assert (first.run, first.fence) == (RUN, 1)
    assert await journal.lease("w2", 30) is None
    await journal.release(first)
    again = await journal.lease("w1", 30)
    assert again is not None
    assert again.fence == 1
    await journal.release(again)
    second = await journal.lease("w2", 30)
    assert second is not None
    assert second.fence == 2
    head = await journal.head(RUN)
    assert head is not None
    assert (head.owner, head.fence) == ("w2", 2)


async def test_a_stale_owner_writes_nothing_anywhere_R11_C3(journal: Journal) -> None:
    await run_log(journal)
    stale = await journal.lease("w1", 0.05)
    assert stale is not None
    log = await RunLog.load(journal, clock, RUN)
    taken = await taken_by("w2", journal)
    before = await journal.events(RUN)
    with pytest.raises(FenceLost):
        await log.record([dispatched("t1")], stale.fence)
    with pytest.raises(FenceLost):
        await journal.renew(stale, 30)
    body = encode_state(log.state)
    with pytest.raises(FenceLost):
        await journal.put_checkpoint(Checkpoint(RUN, 2, log.hash, 1, body, sha256_digest(body)), stale.fence)
    await journal.release(stale)
    assert await journal.events(RUN) == before
    assert await journal.checkpoint(RUN) is None
    assert (await journal.renew(taken, 30)).fence == taken.fence


async def test_one_step_is_one_commit_with_its_commands_R6(journal: Journal) -> None:
    await run_log(journal, plan=RunPlan())
    lease = await journal.lease("w1", 30)
    assert lease is not None
    log = await RunLog.load(journal, clock, RUN)
    await log.record([], lease.fence, then=lambda _state: [dispatched("t1")])
    assert [command.id for command in await journal.commands(RUN)] == ["t1#1"]
    blob = Blob(sha256_digest(b"hello"), b"hello")
    await log.record([replied("t1")], lease.fence, [blob])
    head = await journal.head(RUN)
    assert head is not None
    assert (head.state, head.terminal, head.outcome) == ("completed", True, "Completed")
    assert await journal.commands(RUN) == []
    assert await journal.get_blob(log.state.tenant, blob.digest) == b"hello"
    await journal.release(lease)
    assert await journal.lease("w2", 30) is None, "a finished run is nobody's work"


async def test_nothing_is_written_when_any_part_is_refused(journal: Journal) -> None:
    log = await run_log(journal)
    record = chain.link(_event(), run=RUN, seq=3, fence=0, recorded_at=1, prev_hash=log.hash)  # type: ignore[arg-type]
    with pytest.raises(AgentrunError, match="hash to"):
        await journal.append(Append(RUN, 2, None, (record,), blobs=(Blob(BLOB, b"other bytes"),)))
    assert len(await journal.events(RUN)) == 2


async def test_a_command_that_is_not_due_is_not_handed_out(journal: Journal) -> None:
    from agentrun.core.events import ModelFailed

    await run_log(journal)
    lease = await journal.lease("w1", 30)
    assert lease is not None
    log = await RunLog.load(journal, clock, RUN)
    later = clock() + 3_600_000_000
    await log.record([dispatched("t1")], lease.fence)
    await log.record([ModelFailed("t1", 1, "Transient", "x", next_attempt_at=later)], lease.fence)
    await journal.release(lease)
    assert [command.not_before for command in await journal.commands(RUN)] == [later]
    assert await journal.lease("w1", 30) is None


@pytest.mark.parametrize("data", NASTY)
async def test_any_bytes_come_back_as_they_were_C64(journal: Journal, data: bytes) -> None:
    tenant = Tenant("c", "n")
    await journal.put_blobs(tenant, [Blob(sha256_digest(data), data)])
    await journal.put_blobs(tenant, [Blob(sha256_digest(data), data)])
    assert await journal.get_blob(tenant, sha256_digest(data)) == data


async def test_a_tenant_sees_only_its_own(journal: Journal) -> None:
    log = await run_log(journal)
    other = Tenant("c1", "ns-uid-2")
    await RunLog.create(journal, clock, replace(created(), uid="other-run", tenant=other), "bob")
    assert [head.key.run for head in await journal.runs(log.state.tenant)] == [RUN]
    assert [head.key.run for head in await journal.runs(other)] == ["other-run"]
    blob = Blob(sha256_digest(b"x"), b"x")
    await journal.put_blobs(other, [blob])
    assert await journal.get_blob(log.state.tenant, blob.digest) is None


async def test_a_checkpoint_saves_time_and_decides_nothing_R4(journal: Journal) -> None:
    await run_log(journal)
    lease = await journal.lease("w1", 30)
    assert lease is not None
    log = await RunLog.load(journal, clock, RUN)
    for attempt in range(1, 120):
        await log.record([dispatched("t1", attempt)], lease.fence)
        await log.record([StepAbandoned("t1", attempt, "again")], lease.fence)
    checkpoint = await journal.checkpoint(RUN)
    assert checkpoint is not None
    assert checkpoint.seq >= 200
    with_it = await RunLog.load(journal, clock, RUN)
    await journal.drop_checkpoints(RUN)
    without = await RunLog.load(journal, clock, RUN)
    assert encode_state(with_it.state) == encode_state(without.state) == encode_state(log.state)
    torn = replace(checkpoint, state=checkpoint.state[:-1] + b" ")
    await journal.put_checkpoint(torn, lease.fence)
    with pytest.raises(CorruptHistory, match="corrupted"):
        await RunLog.load(journal, clock, RUN)
    await journal.drop_checkpoints(RUN)
    elsewhere = replace(checkpoint, hash="sha256:" + "0" * 64)
    await journal.put_checkpoint(elsewhere, lease.fence)
    with pytest.raises(CorruptHistory, match="not of this history"):
        await RunLog.load(journal, clock, RUN)


async def test_changes_are_seen_and_never_omitted(journal: Journal) -> None:
    cursor, _ = await journal.changed_since(0)
    await run_log(journal)
    cursor, changed = await journal.changed_since(cursor)
    assert changed == [RUN]
    log = await RunLog.load(journal, clock, RUN)
    waiting = asyncio.create_task(journal.wait_change(20))
    await asyncio.sleep(0.2)
    await log.accept(StopRequested("Cancel", ANN), "spec/2/stop")
    await asyncio.wait_for(waiting, 10)
    assert RUN in (await journal.changed_since(cursor))[1]


async def test_the_outcome_of_the_same_work_is_found_again_C34(journal: Journal) -> None:
    plan = RunPlan()
    await run_log(journal, plan=plan)
    lease = await journal.lease("w1", 30)
    assert lease is not None
    log = await RunLog.load(journal, clock, RUN)
    key = (log.state.tenant, "run-1", log.state.template_digest, log.state.input_digest)
    assert await journal.finished_before(*key) is None
    await log.record([dispatched("t1")], lease.fence)
    await log.record([replied("t1")], lease.fence)
    found = await journal.finished_before(*key)
    assert found is not None
    assert (found.key.run, found.outcome) == (RUN, "Completed")
    assert await journal.finished_before(key[0], "another", key[2], key[3]) is None


async def test_whoever_follows_the_cursor_sees_every_run_whatever_is_written_meanwhile(journal: Journal) -> None:
    """A change is stamped before it is committed: a look in between must not step over it."""
    made: list[str] = []
    seen: set[str] = set()
    ended = asyncio.Event()

    async def write() -> None:
        for _ in range(60):
            uid = str(uuid.uuid4())
            await run_log(journal, uid)
            made.append(uid)

    async def follow() -> None:
        cursor = 0
        last = False
        while not last:
            last = ended.is_set()
            cursor, changed = await journal.changed_since(cursor)
            seen.update(changed)

    follower = asyncio.create_task(follow())
    await asyncio.gather(write(), write())
    ended.set()
    await follower
    assert seen >= set(made)


async def test_an_accepted_fact_is_told_from_a_moved_head(journal: Journal) -> None:
    log = await run_log(journal)
    from agentrun.core.events import encode

    again = chain.link(encode(RunAdmitted(), "admit"), run=RUN, seq=9, fence=0, recorded_at=1, prev_hash=log.hash)
    with pytest.raises(AlreadyAccepted):
        await journal.append(Append(RUN, 8, None, (again,)))


async def test_runs_are_listed_page_by_page(journal: Journal) -> None:
    names = sorted(str(uuid.uuid4()) for _ in range(5))
    for name in names:
        await run_log(journal, name, admitted=False)
    first = await journal.runs(limit=3)
    rest = await journal.runs(limit=3, after=first[-1].key.run)
    assert [head.key.run for head in (*first, *rest)] == names
    assert len(await journal.runs(live_only=True)) == 5
    assert isinstance(created(), RunCreated)
    assert await journal.epoch() == 1


async def test_the_newest_run_of_a_name_is_found_within_its_tenant_only(journal: Journal) -> None:
    older = await run_log(journal, str(uuid.uuid4()))
    newer = await run_log(journal, str(uuid.uuid4()))
    tenant, name = newer.state.tenant, newer.state.name
    found = await journal.newest_named(tenant, name)
    assert found is not None
    assert older.state.uid != found.key.run == newer.state.uid
    assert await journal.newest_named(tenant, "another") is None
    assert await journal.newest_named(Tenant(tenant.cluster, "another namespace"), name) is None
