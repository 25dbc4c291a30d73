"""The hash chain over a history (docs/decisions/0001-formats.md): hashes cover stored bytes."""

import hashlib
from collections.abc import Iterable

import msgspec

from agentrun.core.digest import PREFIX
from agentrun.core.errors import CorruptHistory
from agentrun.core.events import EventRecord, NewEvent

GENESIS = PREFIX + "0" * 64


class _Header(msgspec.Struct, frozen=True):
    """Fields in the order RFC 8785 sorts them, so that the plain encoder writes the canonical form (tested)."""

    bodyDigest: str  # noqa: N815 - a stored name
    fence: int
    kind: str
    kindVersion: int  # noqa: N815
    recordedAt: int  # noqa: N815
    run: str
    seq: int
    sourceKey: str | None  # noqa: N815
    v: int = 1


_encode = msgspec.json.Encoder().encode


def header_bytes(record: EventRecord) -> bytes:
    """RFC 8785 form of the hashed header."""
    body = PREFIX + hashlib.sha256(record.body).hexdigest()
    return _encode(
        _Header(
            body, record.fence, record.kind, record.kind_version, record.recorded_at, record.run, record.seq,
            record.source_key,
        )
    )  # fmt: skip


def event_hash(record: EventRecord) -> str:
    """The hash an event must carry, given its `prev_hash`."""
    prev = bytes.fromhex(record.prev_hash.removeprefix(PREFIX))
    return PREFIX + hashlib.sha256(prev + header_bytes(record)).hexdigest()


def link(event: NewEvent, *, run: str, seq: int, fence: int, recorded_at: int, prev_hash: str) -> EventRecord:
    """Give an event its place: number, fence, time (microseconds UTC) and hash."""
    draft = EventRecord(
        run, seq, fence, event.kind, event.kind_version, event.source_key, recorded_at, event.body, prev_hash, ""
    )
    return msgspec.structs.replace(draft, hash=event_hash(draft))


def verify(records: Iterable[EventRecord], *, after_seq: int = 0, after_hash: str = GENESIS) -> str:
    """Hash of the last record; raises CorruptHistory naming the first position that does not hold (R4)."""
    seq, previous = after_seq, after_hash
    for record in records:
        seq += 1
        if record.seq != seq:
            raise CorruptHistory(f"run {record.run}: event {seq} is missing, found {record.seq}")
        if record.prev_hash != previous or event_hash(record) != record.hash:
            raise CorruptHistory(f"run {record.run}: event {seq} ({record.kind}) is not what its hash says")
        previous = record.hash
    return previous
