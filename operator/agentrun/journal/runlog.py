"""`RunLog`: one run's history and state, kept together. The only road on which a history grows (R4, R6, R11)."""

from collections.abc import Callable, Sequence

from agentrun.core import chain
from agentrun.core.commands import AnyCommand, encode_command
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import CorruptHistory
from agentrun.core.events import Event, EventRecord, NewEvent, RunCreated, encode
from agentrun.core.reducer import commands, fold, reduce
from agentrun.core.state import State, decode_state, encode_state
from agentrun.core.visible import visible_state
from agentrun.journal.port import (
    AlreadyAccepted,
    Append,
    Blob,
    Checkpoint,
    FenceLost,
    HeadMoved,
    Journal,
    PendingCommand,
    RunKey,
    RunNotFound,
)

Clock = Callable[[], int]
Then = Callable[[State], Sequence[Event]]
CHECKPOINT_EVERY = 200
HEAD_TRIES = 50  # a head that moves this often under one append is a fault worth seeing


def _nothing(_state: State) -> Sequence[Event]:
    return ()


def _pending(command: AnyCommand) -> PendingCommand:
    return PendingCommand(command.id, command.kind, encode_command(command), command.not_before)


class RunLog:
    """State at the verified head of one run. Not shared between tasks that append at the same time."""

    def __init__(self, journal: Journal, clock: Clock, state: State, seq: int, head_hash: str, fence: int) -> None:
        self._journal = journal
        self._clock = clock
        self.state = state
        self.seq = seq
        self.hash = head_hash
        self.fence = fence  # highest seen in the history
        self._checkpointed = seq
        self._wanted: tuple[State, tuple[AnyCommand, ...]] | None = None  # the last state asked about, and its commands

    # --- opening ---------------------------------------------------------------------------------------------------

    @classmethod
    async def create(cls, journal: Journal, clock: Clock, created: RunCreated, requester: str) -> "RunLog":
        """Journal the run's first event; if it is there already, load what is there (C10)."""
        record = chain.link(
            encode(created, "create"), run=created.uid, seq=1, fence=0, recorded_at=clock(), prev_hash=chain.GENESIS
        )
        reduction = reduce(None, record)
        key = RunKey(
            run=created.uid, tenant=created.tenant, namespace=created.namespace, name=created.name,
            definition=created.definition, template_digest=created.template_digest, input_digest=created.input_digest,
            requester=requester, reducer_version=created.reducer_version,
        )  # fmt: skip
        issued = tuple(_pending(command) for command in reduction.issued)
        first = Append(created.uid, 0, None, (record,), issued, state=visible_state(reduction.state).value)
        if await journal.create_run(key, first):
            return cls(journal, clock, reduction.state, 1, record.hash, 0)
        return await cls.load(journal, clock, created.uid)

    @classmethod
    async def load(cls, journal: Journal, clock: Clock, run: str) -> "RunLog":
        """State from the newest good checkpoint and the verified tail; raises RunNotFound, CorruptHistory."""
        checkpoint = await journal.checkpoint(run)
        if checkpoint is None:
            return await cls._replayed(journal, clock, run)
        log = cls(journal, clock, _opened(checkpoint), checkpoint.seq, checkpoint.hash, 0)
        await log._anchor(checkpoint)
        await log.refresh()
        return log

    @classmethod
    async def _replayed(cls, journal: Journal, clock: Clock, run: str) -> "RunLog":
        records = await journal.events(run)
        if not records:
            raise RunNotFound(f"no run {run} in this journal")
        head_hash = chain.verify(records)
        state: State | None = None
        for record in records:
            state = fold(state, record)
        if state is None:
            raise RunNotFound(f"no run {run} in this journal")
        return cls(journal, clock, state, records[-1].seq, head_hash, records[-1].fence)

    async def _anchor(self, checkpoint: Checkpoint) -> None:
        """The checkpoint must sit on the history: the event at its position carries its hash (R4)."""
        at = await self._journal.events(checkpoint.run, after=checkpoint.seq - 1, limit=1)
        if not at or at[0].hash != checkpoint.hash or chain.event_hash(at[0]) != checkpoint.hash:
            raise CorruptHistory(
                f"run {checkpoint.run}: the checkpoint at event {checkpoint.seq} is not of this history"
            )
        self.fence = at[0].fence

    # --- reading ---------------------------------------------------------------------------------------------------

    async def refresh(self) -> tuple[EventRecord, ...]:
        """Take in what others appended; returns the new events, verified."""
        records = await self._journal.events(self.state.uid, after=self.seq)
        head_hash = chain.verify(records, after_seq=self.seq, after_hash=self.hash)
        for record in records:
            self.state = fold(self.state, record)
            self.fence = max(self.fence, record.fence)
        self.seq += len(records)
        self.hash = head_hash
        return tuple(records)

    # --- appending -------------------------------------------------------------------------------------------------

    async def accept(self, event: Event, source_key: str) -> bool:
        """Record an accepted fact; False if this source key is in the history. Keeps the fence it finds."""
        new = encode(event, source_key)
        for _ in range(HEAD_TRIES):
            try:
                await self._append([new], _nothing, None, ())
            except HeadMoved:
                await self.refresh()
            except AlreadyAccepted:
                await self.refresh()
                return False
            else:
                return True
        raise HeadMoved(f"run {self.state.uid}: the head moved {HEAD_TRIES} times under one fact")

    async def record(
        self, events: Sequence[Event], fence: int, blobs: Sequence[Blob] = (), then: Then = _nothing
    ) -> tuple[EventRecord, ...]:
        """Record results under the lease's fence, in one transaction; returns everything new since the last look.

        `then(state)` is asked, after the events are folded in, for what goes into the same commit (the dispatch of
        the steps that follow). Raises FenceLost: its owner must stop.
        """
        new = [encode(event) for event in events]
        seen: list[EventRecord] = []
        for _ in range(HEAD_TRIES):
            try:
                seen += await self._append(new, then, fence, tuple(blobs))
            except HeadMoved:
                seen += await self.refresh()
                if self.fence > fence:
                    raise FenceLost(f"run {self.state.uid}: fence {fence} was overtaken by {self.fence}") from None
            else:
                await self._maybe_checkpoint(fence)
                return tuple(seen)
        raise HeadMoved(f"run {self.state.uid}: the head moved {HEAD_TRIES} times under one result")

    async def _append(
        self, new: Sequence[NewEvent], then: Then, fence: int | None, blobs: tuple[Blob, ...]
    ) -> list[EventRecord]:
        draft = _Draft(self, fence)
        draft.fold(new)
        draft.fold([encode(event) for event in then(draft.state)])
        if not draft.records:
            return []
        wanted = commands(draft.state)
        await self._journal.append(draft.to_append(self.seq, fence, blobs, wanted))
        self._wanted = draft.state, wanted
        self.state, self.seq, self.hash = draft.state, draft.records[-1].seq, draft.records[-1].hash
        self.fence = max(self.fence, draft.records[-1].fence)
        return draft.records

    def wanted(self) -> tuple[AnyCommand, ...]:
        """What is to be done in the state at the head; found out once per state."""
        if self._wanted is None or self._wanted[0] is not self.state:
            self._wanted = self.state, commands(self.state)
        return self._wanted[1]

    def time(self) -> int:
        """Microseconds UTC, never before the last event."""
        return max(self._clock(), self.state.at)

    async def _maybe_checkpoint(self, fence: int) -> None:
        if self.seq - self._checkpointed < CHECKPOINT_EVERY and not self.state.terminal:
            return
        self._checkpointed = self.seq
        body = encode_state(self.state)
        await self._journal.put_checkpoint(
            Checkpoint(self.state.uid, self.seq, self.hash, self.state.reducer_version, body, sha256_digest(body)),
            fence,
        )


class _Draft:
    """Events folded in and chained, not yet committed."""

    def __init__(self, log: RunLog, fence: int | None) -> None:
        self.state = log.state
        self.records: list[EventRecord] = []
        self._before = log.wanted()
        self._seq, self._hash, self._at = log.seq, log.hash, log.time()
        self._fence = log.fence if fence is None else fence

    def fold(self, new: Sequence[NewEvent]) -> None:
        for event in new:
            self._seq += 1
            record = chain.link(
                event, run=self.state.uid, seq=self._seq, fence=self._fence, recorded_at=self._at, prev_hash=self._hash
            )
            self.state = fold(self.state, record)
            self._hash = record.hash
            self.records.append(record)

    def to_append(
        self, expected_seq: int, fence: int | None, blobs: tuple[Blob, ...], after: Sequence[AnyCommand]
    ) -> Append:
        """`after` are the commands of the draft's state."""
        before = {command.id for command in self._before}
        ids = {command.id for command in after}
        outcome = self.state.outcome
        return Append(
            run=self.state.uid,
            expected_seq=expected_seq,
            fence=fence,
            events=tuple(self.records),
            issued=tuple(_pending(command) for command in after if command.id not in before),
            finished=tuple(command_id for command_id in before if command_id not in ids),
            blobs=blobs,
            state=visible_state(self.state).value,
            terminal=outcome is not None,
            outcome=outcome.reason if outcome else None,
        )


def _opened(checkpoint: Checkpoint) -> State:
    """Refuses a checkpoint whose bytes are not what its digest says (R4)."""
    if sha256_digest(checkpoint.state) != checkpoint.state_digest:
        raise CorruptHistory(f"run {checkpoint.run}: the checkpoint at event {checkpoint.seq} is corrupted; drop it")
    return decode_state(checkpoint.state)
