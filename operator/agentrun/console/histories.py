"""One tenant's runs, as the journal has them: nothing here answers about anybody else's."""

import asyncio
import re
from collections.abc import Iterable

import msgspec

from agentrun.console.refusal import Refusal, unknown
from agentrun.core import chain
from agentrun.core.errors import CorruptHistory, UnknownReducerVersion
from agentrun.core.events import (
    Artifact,
    Event,
    EventRecord,
    ModelCompleted,
    RunCreated,
    SteeringAdded,
    ToolCompleted,
    VerificationCompleted,
    WorkspaceGot,
    decode,
)
from agentrun.core.ids import Tenant
from agentrun.core.reducer import fold
from agentrun.core.state import State
from agentrun.journal.port import Journal, RunHead

_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OUTPUT = re.compile(r" output=(sha256:[0-9a-f]{64})$")  # the harness's own word for the whole of a cut output


def is_uid(text: str) -> bool:
    """Whether this has the form of an AgentRun's UID."""
    return _UID.fullmatch(text) is not None


class History(msgspec.Struct, frozen=True):
    """A whole history, its chain verified, and the state it leads to. `late`: seqs of what advanced nothing (R3.4)."""

    head: RunHead
    records: tuple[EventRecord, ...]
    state: State
    late: frozenset[int]


def verified(head: RunHead, records: tuple[EventRecord, ...]) -> History:
    """The history up to its head and perhaps beyond; raises CorruptHistory, UnknownReducerVersion.

    A chain says nothing about what was cut off behind it: the head must stand in it.
    """
    chain.verify(records)
    if not records or len(records) < head.seq or records[head.seq - 1].hash != head.hash:
        raise CorruptHistory(f"run {head.key.run}: the head, event {head.seq}, does not stand in the history")
    state, late = fold(None, records[0]), set[int]()
    for record in records[1:]:
        before, state = state.evidence, fold(state, record)
        if state.evidence > before:
            late.add(record.seq)
    return History(head, records, state, frozenset(late))


class Histories:
    """Raises Refusal 404 for a run that is not this tenant's; JournalUnavailable."""

    def __init__(self, journal: Journal, tenant: Tenant) -> None:
        self._journal = journal
        self._tenant = tenant

    async def runs(self, after: str, limit: int) -> list[RunHead]:
        """A page of runs in the order of their UIDs."""
        return await self._journal.runs(self._tenant, limit=limit, after=after)

    async def head(self, run: str) -> RunHead:
        """By UID, or the newest run of that name."""
        found = await self._journal.head(run) if is_uid(run) else None
        if found is None or found.key.tenant != self._tenant:  # a name may look like somebody else's UID
            found = await self._journal.newest_named(self._tenant, run)
        if found is None:
            raise unknown(f"the journal has no run {run} of this namespace")
        return found

    async def records(self, run: str, after: int, limit: int | None = None) -> list[EventRecord]:
        """Events behind a sequence number, each what its hash says. Raises Refusal 503."""
        records = await self._journal.events(run, after=after, limit=limit)
        before = records[0].prev_hash if records and after else chain.GENESIS
        try:
            chain.verify(records, after_seq=after, after_hash=before)
        except CorruptHistory as error:
            raise _corrupt(error) from error
        return records

    async def history(self, run: str) -> History:
        """Everything, verified. Raises Refusal 503 on a history that does not hold or is of another build."""
        head = await self.head(run)
        records = tuple(await self._journal.events(head.key.run))
        try:
            # Beside the loop: one long history must not hold up who else waits, nor a lease in the same process.
            return await asyncio.to_thread(verified, head, records)
        except CorruptHistory as error:
            raise _corrupt(error) from error
        except (UnknownReducerVersion, msgspec.ValidationError) as error:
            message = f"this build cannot read the history of run {head.key.run} ({error}): use the build that wrote it"
            raise Refusal(503, "UnknownVersion", message) from error

    async def blob(self, digest: str) -> bytes:
        """Content that a history of this tenant names; the caller has checked that."""
        data = await self._journal.get_blob(self._tenant, digest)
        if data is None:
            raise Refusal(410, "Gone", f"the content {digest} is no longer kept")
        return data


def _corrupt(error: CorruptHistory) -> Refusal:
    return Refusal(503, "CorruptHistory", str(error))


def named_blobs(records: Iterable[EventRecord]) -> frozenset[str]:
    """Digests that the events themselves name, never those inside somebody's text."""
    return frozenset(digest for record in records for digest in _digests(decode(record)) if digest)


def _digests(event: Event) -> tuple[str, ...]:
    match event:
        case RunCreated():
            return (event.workspace or "", event.template_digest, event.input_digest)
        case SteeringAdded():
            return (event.message,)
        case ModelCompleted():
            return (event.message, *(call.arguments for call in event.calls))
        case ToolCompleted():
            return (event.output, *_OUTPUT.findall(event.receipt))
        case WorkspaceGot():
            return (event.snapshot, *_of(event.artifacts))
        case VerificationCompleted():
            return _of(event.artifacts)
        case _:
            return ()


def _of(artifacts: tuple[Artifact, ...]) -> tuple[str, ...]:
    return tuple(artifact.digest for artifact in artifacts)
