"""What each journal operation does, once for both stores.

An operation is a generator: it yields statements by name and is sent their rows. A store runs it inside one
transaction, SQLite on its writer thread, PostgreSQL on a connection. So both stores can differ in SQL only.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import msgspec

from agentrun.core.digest import sha256_digest
from agentrun.core.errors import AgentrunError
from agentrun.core.events import EventRecord
from agentrun.core.ids import Tenant
from agentrun.journal.port import (
    AlreadyAccepted,
    Append,
    Blob,
    Checkpoint,
    FenceLost,
    HeadMoved,
    Lease,
    PendingCommand,
    RunHead,
    RunKey,
    RunNotFound,
)

Row = Mapping[str, Any]
Rows = Sequence[Row]


class Statement(msgspec.Struct, frozen=True):
    """A statement by name, run once per set of parameters; rows come back only from a single run."""

    name: str
    parameters: tuple[dict[str, Any], ...]


class BlobMismatch(AgentrunError):
    """Bytes that are not what their digest says."""


def one(statement: str, /, **parameters: Any) -> Statement:
    """A statement run once."""
    return Statement(statement, (parameters,))


def create_run(key: RunKey, append: Append) -> Generator[Statement, Rows, bool]:
    """Insert the run and its first event together; False if it was there."""
    values = msgspec.structs.asdict(key)
    tenant: Tenant = values.pop("tenant")
    rows = yield one("insert_run", **values, cluster=tenant.cluster, namespace_uid=tenant.namespace_uid)
    if not rows:
        return False
    yield from _advance(append)
    yield from _write(append, tenant)
    return True


def append(request: Append) -> Generator[Statement, Rows, None]:
    """Check fence, source keys and head, in this order; then write everything.

    The head moves first, under the condition that fence and head are the expected ones: one statement that checks,
    locks and writes. Only when it finds nothing is the reason looked for.
    """
    rows = yield from _advance(request)
    head = None if rows else (yield from _head_for_append(request.run))
    if head is not None and request.fence is not None and head["fence"] != request.fence:
        raise FenceLost(f"run {request.run}: fence {request.fence} was overtaken by {head['fence']}")
    for event in request.events:
        if event.source_key is not None:
            known = yield one("source_key_known", run=request.run, source_key=event.source_key)
            if known:
                raise AlreadyAccepted(f"run {request.run}: {event.source_key} is recorded already")
    if head is not None:
        raise HeadMoved(f"run {request.run}: the head is {head['seq']}, not {request.expected_seq}")
    yield from _write(request, Tenant(rows[0]["cluster"], rows[0]["namespace_uid"]))


def append_results(request: Append) -> Generator[Statement, Rows, bool]:
    """The same as one statement, for a store that can: it is its own transaction. Only for results, under a fence.

    False: fence or head are not the expected ones, and nothing is written; `append` says which.
    """
    _check_blobs(request.blobs)
    last = request.events[-1]
    rows = yield one(
        "append_results", run=request.run, expected_seq=request.expected_seq, fence=request.fence, seq=last.seq,
        hash=last.hash, state=request.state, terminal=int(request.terminal), outcome=request.outcome,
        events=_json(request.events), finished=list(request.finished),
        issued=_json(() if request.terminal else request.issued),
        digests=[blob.digest for blob in request.blobs], contents=[blob.data for blob in request.blobs],
    )  # fmt: skip
    return bool(rows)


def _json(rows: Sequence[msgspec.Struct]) -> str:
    """Rows as the database unpacks them; bytes in base64."""
    return msgspec.json.encode(rows).decode()


def _advance(request: Append) -> Generator[Statement, Rows, Rows]:
    """Move the head to the last event; no row if it, or the fence, is not the expected one."""
    last = request.events[-1]
    return (
        yield one(
            "advance_head", run=request.run, expected_seq=request.expected_seq, fence=request.fence, seq=last.seq,
            hash=last.hash, state=request.state, terminal=int(request.terminal), outcome=request.outcome,
        )
    )  # fmt: skip


def _head_for_append(run: str) -> Generator[Statement, Rows, Row]:
    rows = yield one("head_for_append", run=run)
    if not rows:
        raise RunNotFound(f"no run {run} in this journal")
    return rows[0]


def _write(request: Append, tenant: Tenant) -> Generator[Statement, Rows, None]:
    yield from put_blobs(tenant, request.blobs)
    yield Statement("insert_event", tuple(msgspec.structs.asdict(event) for event in request.events))
    if request.terminal:
        yield one("drop_commands", run=request.run)
        return
    if request.finished:
        yield Statement("finish_command", tuple({"run": request.run, "id": name} for name in request.finished))
    if request.issued:
        issued = ({"run": request.run, **msgspec.structs.asdict(command)} for command in request.issued)
        yield Statement("insert_command", tuple(issued))


def put_blobs(tenant: Tenant, blobs: Sequence[Blob]) -> Generator[Statement, Rows, None]:
    """Keep content; a digest that does not fit its bytes is refused before anything is written."""
    _check_blobs(blobs)
    if blobs:
        rows = ({"tenant": tenant.key, "digest": blob.digest, "data": blob.data} for blob in blobs)
        yield Statement("insert_blob", tuple(rows))


def _check_blobs(blobs: Sequence[Blob]) -> None:
    for blob in blobs:
        if sha256_digest(blob.data) != blob.digest:
            raise BlobMismatch(f"the bytes given for {blob.digest} hash to {sha256_digest(blob.data)}")


def get_blob(tenant: Tenant, digest: str) -> Generator[Statement, Rows, bytes | None]:
    """Content by digest."""
    rows = yield one("get_blob", tenant=tenant.key, digest=digest)
    return bytes(rows[0]["data"]) if rows else None


def head(run: str) -> Generator[Statement, Rows, RunHead | None]:
    """One run's head."""
    rows = yield one("head", run=run)
    return _head(rows[0]) if rows else None


def events(run: str, after: int, limit: int | None) -> Generator[Statement, Rows, list[EventRecord]]:
    """A slice of a history."""
    rows = yield one("events", run=run, after=after, limit=2**31 if limit is None else limit)
    return [_event(row) for row in rows]


def commands(run: str) -> Generator[Statement, Rows, list[PendingCommand]]:
    """What is issued and not finished."""
    rows = yield one("commands", run=run)
    return [PendingCommand(row["id"], row["kind"], bytes(row["body"]), row["not_before"]) for row in rows]


def checkpoint(run: str) -> Generator[Statement, Rows, Checkpoint | None]:
    """The newest checkpoint."""
    rows = yield one("newest_checkpoint", run=run)
    return _checkpoint(rows[0]) if rows else None


def put_checkpoint(value: Checkpoint, fence: int) -> Generator[Statement, Rows, None]:
    """Keep the newest checkpoint only; the fence is checked here as on every write path (R11)."""
    head = yield from _head_for_append(value.run)
    if head["fence"] != fence:
        raise FenceLost(f"run {value.run}: fence {fence} was overtaken by {head['fence']}")
    if value.seq > head["seq"]:
        raise HeadMoved(f"run {value.run}: a checkpoint at {value.seq} lies beyond the head {head['seq']}")
    yield one("put_checkpoint", **msgspec.structs.asdict(value))
    yield one("drop_older_checkpoints", run=value.run, seq=value.seq)


def drop_checkpoints(run: str) -> Generator[Statement, Rows, None]:
    """Forget every checkpoint; only time is lost."""
    yield one("drop_checkpoints", run=run)


def lease(owner: str, seconds: float) -> Generator[Statement, Rows, Lease | None]:
    """Claim one due run; the fence rises only on a change of hands."""
    rows = yield one("take_lease", owner=owner, micros=int(seconds * 1e6))
    return _lease(rows[0], owner) if rows else None


def renew(held: Lease, seconds: float) -> Generator[Statement, Rows, Lease]:
    """Prolong a lease that is still this owner's."""
    rows = yield one("renew_lease", run=held.run, owner=held.owner, fence=held.fence, micros=int(seconds * 1e6))
    if not rows:
        raise FenceLost(f"run {held.run}: the lease of fence {held.fence} is lost")
    return _lease(rows[0], held.owner)


def release(held: Lease) -> Generator[Statement, Rows, None]:
    """Give a lease back."""
    yield one("release_lease", run=held.run, owner=held.owner, fence=held.fence)


def runs(tenant: Tenant | None, after: str, limit: int, *, live: bool) -> Generator[Statement, Rows, list[RunHead]]:
    """A page of heads."""
    key = tenant.key if tenant else ""
    rows = yield one("runs", tenant=key, after=after, limit=limit, live=int(live))
    return [_head(row) for row in rows]


def finished_before(
    tenant: Tenant, name: str, template_digest: str, input_digest: str
) -> Generator[Statement, Rows, RunHead | None]:
    """The newest finished run of the same name and digests."""
    rows = yield one(
        "finished_before", cluster=tenant.cluster, namespace_uid=tenant.namespace_uid, name=name,
        template_digest=template_digest, input_digest=input_digest,
    )  # fmt: skip
    return _head(rows[0]) if rows else None


def newest_named(tenant: Tenant, name: str) -> Generator[Statement, Rows, RunHead | None]:
    """The newest run of that name."""
    rows = yield one("newest_named", cluster=tenant.cluster, namespace_uid=tenant.namespace_uid, name=name)
    return _head(rows[0]) if rows else None


def changed_since(cursor: int, overlap: int) -> Generator[Statement, Rows, tuple[int, list[str]]]:
    """Runs changed since the cursor; the next cursor lies `overlap` microseconds before the store's clock.

    A transaction may commit after a later-stamped one was seen: looking again over the overlap finds it.
    """
    rows = yield one("now")
    now = int(rows[0]["now"])
    rows = yield one("changed_since", cursor=cursor)
    return now - overlap, [row["run"] for row in rows]


def now() -> Generator[Statement, Rows, int]:
    """The store's clock."""
    rows = yield one("now")
    return int(rows[0]["now"])


def epoch() -> Generator[Statement, Rows, int]:
    """The journal's epoch."""
    rows = yield one("epoch")
    return int(rows[0]["epoch"])


def _lease(row: Row, owner: str) -> Lease:
    return Lease(row["run"], owner, row["fence"], row["lease_until"], row["seq"])


def _event(row: Row) -> EventRecord:
    return EventRecord(
        run=row["run"], seq=row["seq"], fence=row["fence"], kind=row["kind"], kind_version=row["kind_version"],
        source_key=row["source_key"], recorded_at=row["recorded_at"], body=bytes(row["body"]),
        prev_hash=row["prev_hash"], hash=row["hash"],
    )  # fmt: skip


def _checkpoint(row: Row) -> Checkpoint:
    return Checkpoint(
        row["run"], row["seq"], row["hash"], row["reducer_version"], bytes(row["state"]), row["state_digest"]
    )


def _head(row: Row) -> RunHead:
    tenant = Tenant(row["cluster"], row["namespace_uid"])
    key = RunKey(
        run=row["run"], tenant=tenant, namespace=row["namespace"], name=row["name"], definition=row["definition"],
        template_digest=row["template_digest"], input_digest=row["input_digest"], requester=row["requester"],
        reducer_version=row["reducer_version"],
    )  # fmt: skip
    held = row["lease_until"] > row["now"]
    return RunHead(
        key, row["seq"], row["hash"], row["fence"], row["owner"] if held else None, row["lease_until"], row["state"],
        bool(row["terminal"]), row["outcome"], row["created_at"], row["updated_at"],
    )  # fmt: skip
