"""Both stores and the oracle side by side: one operation, one answer, whatever came before (R4, R6, R11)."""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace
from tests.integration.postgres import PostgresServer
from tests.property.oracle import NEVER, Oracle

from agentrun.core import chain
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import AgentrunError
from agentrun.core.events import EventRecord, NewEvent
from agentrun.core.ids import Tenant
from agentrun.journal.port import Append, Blob, Checkpoint, Journal, Lease, PendingCommand, RunHead, RunKey
from agentrun.journal.postgres import PostgresJournal
from agentrun.journal.sqlite import SqliteJournal

RUNS = ["run-1", "run-10", "run-2", "run-20"]
# mostly one of each, so that several runs answer to one question
TENANTS = st.sampled_from([*[Tenant("here", "ns-1")] * 3, Tenant("here", "ns-2")])
NAMES = st.sampled_from([*["nightly"] * 3, "weekly"])
TEMPLATE = "sha256:" + "a" * 64
DIGESTS = st.sampled_from([*[TEMPLATE] * 3, "sha256:" + "b" * 64])
OWNERS = st.sampled_from(["pod-1", "pod-2"])
BODIES = st.binary(max_size=24) | st.just("\ud800\x00".encode("utf-8", "surrogatepass"))
BLOBS = st.lists(BODIES.map(lambda data: Blob(sha256_digest(data), data)), max_size=2).map(tuple)
WRONG = Blob(sha256_digest(b"one"), b"another")
COMMANDS = st.sampled_from(["t1#1", "t1#2", "t1c0#1", "t2#1", "t10#1", "put1#1"])
ISSUED = st.lists(
    st.builds(PendingCommand, COMMANDS, st.just("CallTool"), BODIES, st.sampled_from([0, 0, 1, 2, NEVER])),
    max_size=3,
    unique_by=lambda command: command.id,
).map(tuple)
SHORT, LONG = 0.001, 3600.0  # a lease that has run out once the rule is over, and one that outlives the test
SECONDS = st.sampled_from([LONG, SHORT, 0.0])
RARELY = st.sampled_from([False] * 5 + [True])
MOSTLY_RIGHT = st.sampled_from([0, 0, 0, 0, 0, -1, 1])  # added to a head or a fence
FORGERIES: list[dict[str, Callable[[Any], Any]]] = [
    {"fence": lambda fence: fence - 1},
    {"owner": lambda owner: owner + "x"},
    {"run": lambda _: "no-such-run"},
]
KEYS = [f"steering/s{number}" for number in range(4)]
VOID = {"append", "put_checkpoint", "drop_checkpoints", "put_blobs", "release"}

REACHED: Counter[str] = Counter()
EXPECTED = {
    *("create_run: done", "create_run: nothing"),
    *(f"append a result: {word}" for word in ("done", "FenceLost", "HeadMoved", "RunNotFound", "BlobMismatch")),
    *(f"append a fact: {word}" for word in ("done", "AlreadyAccepted", "HeadMoved", "RunNotFound")),
    *("lease: done", "lease: nothing", "lease: another hand", "renew: done", "renew: FenceLost"),
    *("release: done", "release: of no effect"),
    *(f"put_checkpoint: {word}" for word in ("done", "FenceLost", "HeadMoved", "RunNotFound")),
    *("drop_checkpoints: done", "checkpoint: done", "checkpoint: nothing"),
    *("put_blobs: done", "put_blobs: BlobMismatch", "get_blob: done", "get_blob: nothing"),
    *("head: done", "head: nothing", "events: done", "events: nothing", "commands: done", "commands: nothing"),
    *("runs: done", "runs: nothing", "newest_named: done", "newest_named: nothing"),
    *("finished_before: done", "finished_before: nothing", "changed_since: done", "changed_since: nothing"),
}


def timeless(value: Any) -> Any:
    """An answer without the store's times; the oracle has none."""
    match value:
        case RunHead():
            return replace(value, lease_until=0, created_at=0, updated_at=0)
        case Lease():
            return replace(value, until=0)
        case list():
            return [timeless(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


class SideBySide(RuleBasedStateMachine):
    """Asks the oracle, SQLite and PostgreSQL the same, in any order, and compares what they say and what they hold."""

    url: ClassVar[str]  # a PostgreSQL database of its own; each example empties it

    def __init__(self) -> None:
        super().__init__()
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.oracle = Oracle()
        self.journals: list[Journal] = [
            SqliteJournal.open(Path(self.folder.name) / "journal.db"),
            self.loop.run_until_complete(PostgresJournal.open(self.url, 2)),
        ]
        self.leases: list[Lease] = []
        self.cursors: list[tuple[int, list[int]]] = [(0, [0, 0])]  # the oracle's, and each store's

    def teardown(self) -> None:
        for journal in self.journals:
            self.loop.run_until_complete(journal.close())
        self.loop.close()
        self.folder.cleanup()

    def call(self, journal: Journal, operation: str, *args: object, **options: object) -> Any:
        """What one store answers."""
        return self.loop.run_until_complete(getattr(journal, operation)(*args, **options))

    def ask(self, operation: str, *args: object, label: str = "", **options: object) -> Any:
        """Ask all three; the answer or the error's class is the same. Returns the oracle's, None for an error."""
        try:
            want, word = getattr(self.oracle, operation)(*args, **options), ""
        except AgentrunError as error:
            want, word = None, type(error).__name__
        for journal in self.journals:
            try:
                got, failed = timeless(self.call(journal, operation, *args, **options)), ""
            except AgentrunError as error:
                got, failed = None, type(error).__name__
            said = f"{type(journal).__name__}.{operation}{args}{options}"
            assert (failed, got) == (word, want), f"{said} says {failed or got}, not {word or want}"
        done = operation in VOID or want not in (None, False, [])
        REACHED[f"{label or operation}: {word or ('done' if done else 'nothing')}"] += 1
        return want

    def any_run(self, data: st.DataObject) -> str:
        """A run that is there; rarely one that is not."""
        return data.draw(st.sampled_from([*self.oracle.rows, *self.oracle.rows, *self.oracle.rows, "no-such-run"]))

    # --- runs and their histories ----------------------------------------------------------------------------------

    @initialize(issued=ISSUED.filter(bool))
    def first(self, issued: tuple[PendingCommand, ...]) -> None:
        key = RunKey(RUNS[2], Tenant("here", "ns-1"), "ns", "nightly", "agent", TEMPLATE, TEMPLATE, "ann", 1)
        self.ask("create_run", key, self.creation(key.run, b"", issued, ()))

    @rule(
        key=st.builds(
            RunKey, st.sampled_from(RUNS), TENANTS, st.just("ns"), NAMES, st.just("agent"), DIGESTS, DIGESTS,
            st.sampled_from(["ann", "ödön"]), st.integers(1, 3),
        ),
        body=BODIES, issued=ISSUED, blobs=BLOBS,
    )  # fmt: skip
    def create_run(self, key: RunKey, body: bytes, issued: tuple[PendingCommand, ...], blobs: tuple[Blob, ...]) -> None:
        self.ask("create_run", key, self.creation(key.run, body, issued, blobs))

    def creation(self, run: str, body: bytes, issued: tuple[PendingCommand, ...], blobs: tuple[Blob, ...]) -> Append:
        event = NewEvent("RunCreated", 1, body, "create")
        record = chain.link(event, run=run, seq=1, fence=0, recorded_at=1, prev_hash=chain.GENESIS)
        return Append(run, 0, None, (record,), issued, blobs=blobs)

    def appended(self, data: st.DataObject, run: str, keys: list[str | None], *, fence: int | None) -> Append:
        """Events for the run's true head, and what goes with them. An end is kept: no caller takes it back."""
        row = self.oracle.rows.get(run)
        seq, last, found = (row.seq, row.hash, row.fence) if row else (0, chain.GENESIS, 0)
        records: list[EventRecord] = []
        for number, key in enumerate(keys):
            event = NewEvent("ToolCompleted", 1, data.draw(BODIES), key)
            at = data.draw(st.integers(0, NEVER))
            number_in_run = seq + 1 + number
            record = chain.link(event, run=run, seq=number_in_run, fence=fence or found, recorded_at=at, prev_hash=last)
            last = record.hash
            records.append(record)
        issued = data.draw(ISSUED)
        finished = tuple(data.draw(st.lists(COMMANDS, max_size=3)))  # one that is issued as well is the new one
        ended = bool(row and row.terminal) or data.draw(RARELY)
        outcome = ((row.outcome if row else None) or data.draw(NAMES)) if ended else None
        state = data.draw(st.sampled_from(["running", "paused"]))
        return Append(run, seq, fence, tuple(records), issued, finished, data.draw(BLOBS), state, ended, outcome)

    @rule(data=st.data(), moved=MOSTLY_RIGHT, taken=MOSTLY_RIGHT, more=st.integers(0, 2))
    def append_results(self, data: st.DataObject, moved: int, taken: int, more: int) -> None:
        run = self.any_run(data)
        head = self.oracle.head(run)
        fence = (head.fence if head else 0) + taken
        append = self.appended(data, run, [None] * (1 + more), fence=fence)
        self.ask("append", replace(append, expected_seq=append.expected_seq + moved), label="append a result")

    @rule(data=st.data(), times=st.integers(1, 4), ends=st.booleans())
    def go_on(self, data: st.DataObject, times: int, ends: bool) -> None:
        """Result after result, as a healthy owner writes them, maybe to the end."""
        run = data.draw(st.sampled_from([*self.oracle.rows]))
        for left in reversed(range(times)):
            append = self.appended(data, run, [None], fence=self.oracle.rows[run].fence)
            if ends and not left:
                append = replace(append, terminal=True, outcome=append.outcome or "Completed")
            if data.draw(RARELY):  # here, where nothing else is wrong: which of two faults is named nobody promises
                self.ask("append", replace(append, blobs=(*append.blobs, WRONG)), label="append a result")
            self.ask("append", append, label="append a result")

    @rule(data=st.data(), moved=MOSTLY_RIGHT, key=st.sampled_from(KEYS), under_fence=st.booleans())
    def append_a_fact(self, data: st.DataObject, moved: int, key: str, under_fence: bool) -> None:
        """A used key, a moved head, or both; some facts come with the lease's fence and a result before them."""
        run = self.any_run(data)
        head = self.oracle.head(run)
        fence = head.fence if head and under_fence else None
        append = self.appended(data, run, [None, key] if under_fence else [key], fence=fence)
        self.ask("append", replace(append, expected_seq=append.expected_seq + moved), label="append a fact")

    # --- leases ----------------------------------------------------------------------------------------------------

    @rule(owner=OWNERS, seconds=SECONDS)
    def lease(self, owner: str, seconds: float) -> None:
        before = {run: row.owner for run, row in self.oracle.rows.items()}
        taken: Lease | None = self.ask("lease", owner, seconds)
        if taken is not None:
            REACHED["lease: another hand"] += before[taken.run] not in (None, owner)
            self.leases.append(taken)
        time.sleep(2 * SHORT)

    def any_lease(self, data: st.DataObject) -> Lease:
        """One that was given, the newest ones more often; rarely with a fence, owner or run it never had."""
        lease: Lease = data.draw(st.sampled_from([*self.leases, *self.leases[-2:], *self.leases[-2:]]))
        forged: dict[str, Any] = data.draw(st.sampled_from([{}, {}, {}, *FORGERIES]))
        return replace(lease, **{name: change(getattr(lease, name)) for name, change in forged.items()})

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), seconds=SECONDS)
    def renew(self, data: st.DataObject, seconds: float) -> None:
        """Any lease that was ever given; a short one lets go of the run."""
        lease = self.any_lease(data)
        before = [self.call(journal, "now") for journal in self.journals]
        if self.ask("renew", lease, seconds) is not None:
            for journal, earlier in zip(self.journals, before, strict=True):
                until = self.call(journal, "head", lease.run).lease_until
                assert earlier <= until - int(seconds * 1e6) <= self.call(journal, "now")
        time.sleep(2 * SHORT)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease = self.any_lease(data)
        held = [run for run, row in self.oracle.rows.items() if row.held]
        self.ask("release", lease)
        if held == [run for run, row in self.oracle.rows.items() if row.held]:
            REACHED["release: of no effect"] += 1

    # --- checkpoints and content -----------------------------------------------------------------------------------

    @rule(data=st.data(), at=st.sampled_from([0, 0, 0, -1, -2, 1]), taken=MOSTLY_RIGHT, state=BODIES)
    def put_checkpoint(self, data: st.DataObject, at: int, taken: int, state: bytes) -> None:
        run = self.any_run(data)
        head = self.oracle.head(run)
        seq, fence = (head.seq, head.fence) if head else (1, 0)
        value = Checkpoint(run, max(1, seq + at), "sha256:" + "c" * 64, 1, state, sha256_digest(state))
        self.ask("put_checkpoint", value, fence + taken)
        self.ask("checkpoint", run)
        if run in self.oracle.rows and data.draw(RARELY):
            self.ask("drop_checkpoints", run)
            self.ask("checkpoint", run)

    @rule(data=st.data(), tenant=TENANTS, blobs=BLOBS, wrong=RARELY)
    def blobs(self, data: st.DataObject, tenant: Tenant, blobs: tuple[Blob, ...], wrong: bool) -> None:
        """Kept for one tenant, looked for by that one or the other."""
        self.ask("put_blobs", tenant, (*blobs, WRONG) if wrong else blobs)
        digests = sorted({digest for _, digest in self.oracle.blobs})
        self.ask("get_blob", data.draw(TENANTS), data.draw(st.sampled_from([*digests, WRONG.digest])))

    # --- reading ---------------------------------------------------------------------------------------------------

    @rule(data=st.data(), after=st.integers(-1, 4), limit=st.none() | st.integers(0, 4))
    def one_run(self, data: st.DataObject, after: int, limit: int | None) -> None:
        run = self.any_run(data)
        self.ask("head", run)
        self.ask("events", run, after=after, limit=limit)
        self.ask("commands", run)
        self.ask("checkpoint", run)

    @rule(
        tenant=st.none() | TENANTS, live=st.booleans(), limit=st.integers(0, 4), after=st.sampled_from(["", "", *RUNS])
    )
    def runs(self, tenant: Tenant | None, live: bool, limit: int, after: str) -> None:
        self.ask("runs", tenant, live_only=live, limit=limit, after=after)

    @rule(data=st.data(), tenant=TENANTS, digest=DIGESTS)
    def named(self, data: st.DataObject, tenant: Tenant, digest: str) -> None:
        """Runs by the name and digests of one that is there, of its tenant or the other, of its input or another."""
        key = self.oracle.rows[data.draw(st.sampled_from([*self.oracle.rows]))].key
        self.ask("newest_named", tenant, key.name)
        self.ask("newest_named", key.tenant, data.draw(NAMES))
        self.ask("finished_before", tenant, key.name, key.template_digest, digest)
        self.ask("finished_before", key.tenant, key.name, key.template_digest, key.input_digest)

    @rule(data=st.data())
    def changed_since(self, data: st.DataObject) -> None:
        """Never omits a run that moved after the cursor was given; repeats only what its times say."""
        position, cursors = data.draw(st.sampled_from([*self.cursors, self.cursors[-1]]))
        following, moved = self.oracle.changed_since(position)
        after: list[int] = []
        for journal, cursor in zip(self.journals, cursors, strict=True):
            following_here, runs = self.call(journal, "changed_since", cursor)
            times = {head.key.run: head.updated_at for head in self.call(journal, "runs")}
            newest = max(times.values())
            assert set(moved) <= set(runs)
            assert sorted(runs) == [run for run, at in times.items() if at >= cursor]
            assert self.call(journal, "changed_since", newest)[1] == [run for run, at in times.items() if at == newest]
            assert self.call(journal, "changed_since", newest + 1)[1] == []
            assert following_here <= self.call(journal, "now")
            after.append(following_here)
        self.cursors.append((following, after))
        REACHED[f"changed_since: {'done' if moved else 'nothing'}"] += 1

    # --- what must hold after every operation ----------------------------------------------------------------------

    @invariant()
    def heads_events_and_commands_are_the_same_R4_R6(self) -> None:
        heads = self.oracle.runs()
        for journal in self.journals:
            assert self.loop.run_until_complete(self.content(journal)) == (
                heads,
                {head.key.run: self.oracle.events(head.key.run) for head in heads},
                {head.key.run: self.oracle.commands(head.key.run) for head in heads},
            )

    async def content(self, journal: Journal) -> object:
        heads = await journal.runs()
        runs = [head.key.run for head in heads]
        events = {run: await journal.events(run) for run in runs}
        return timeless(heads), events, {run: await journal.commands(run) for run in runs}


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """A database of the machine's own."""
    name = "differential"
    yield postgres.database(name)
    postgres.drop(name)


def at_random(url: str, **how: Any) -> None:
    """Run the machine; its health is not judged by how fast databases are."""
    profile = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], **how)
    run_state_machine_as_test(type("Here", (SideBySide,), {"url": url}), settings=profile)


@pytest.mark.postgres
def test_both_stores_answer_and_hold_what_the_oracle_does_R4_R6_R11(url: str) -> None:
    """The same 2,000 operations every time; `make test-long` draws new ones."""
    at_random(url, max_examples=50, stateful_step_count=40, derandomize=True)


@pytest.mark.postgres
def test_the_operations_met_every_answer_they_can_give() -> None:
    """Guards the guard: stores that agree on refusals only would prove little."""
    assert EXPECTED - set(+REACHED) == set()


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.postgres
def test_both_stores_answer_and_hold_what_the_oracle_does_at_length(url: str) -> None:
    """20,000 operations, new ones each time."""
    at_random(url, max_examples=400, stateful_step_count=50)
