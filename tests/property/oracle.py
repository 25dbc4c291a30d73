"""What the port `Journal` promises, in plain dicts and without a database: the word against which stores are held.

It has no clock. A lease of a second or less has run out by the next operation, a longer one never does; a command is
due unless its `not_before` is `NEVER`. Whoever drives it keeps to that.
"""

from dataclasses import dataclass, field

from agentrun.core.digest import sha256_digest
from agentrun.core.events import EventRecord
from agentrun.core.ids import Tenant
from agentrun.journal.operations import BlobMismatch
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

NEVER = 4_102_444_800_000_000  # the year 2100, microseconds UTC


@dataclass
class Row:
    """One run. `born` and `moved` count operations, as a store's times would."""

    key: RunKey
    born: int
    moved: int = 0
    seq: int = 0
    hash: str = ""
    fence: int = 0
    owner: str | None = None
    held: bool = False
    state: str = "created"
    terminal: bool = False
    outcome: str | None = None
    events: list[EventRecord] = field(default_factory=list[EventRecord])
    commands: dict[str, PendingCommand] = field(default_factory=dict[str, PendingCommand])
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict[int, Checkpoint])

    def head(self) -> RunHead:
        """The head with every time 0."""
        owner = self.owner if self.held else None
        return RunHead(
            self.key, self.seq, self.hash, self.fence, owner, 0, self.state, self.terminal, self.outcome, 0, 0
        )


class Oracle:
    """The port's methods, synchronous; same arguments, same answers, same errors."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.moves = 0

    # --- writing ---------------------------------------------------------------------------------------------------

    def create_run(self, key: RunKey, append: Append) -> bool:
        if key.run in self.rows:
            return False
        _check(append.blobs)
        self.rows[key.run] = Row(key, self.moves)
        self._write(self.rows[key.run], append)
        return True

    def append(self, append: Append) -> None:
        row = self._row(append.run)
        if append.fence is not None and append.fence != row.fence:
            raise FenceLost
        known = {event.source_key for event in row.events} - {None}
        if known & {event.source_key for event in append.events}:
            raise AlreadyAccepted
        if append.expected_seq != row.seq:
            raise HeadMoved
        _check(append.blobs)
        self._write(row, append)

    def _write(self, row: Row, append: Append) -> None:
        self.moves += 1
        row.moved = self.moves
        row.events += append.events
        row.seq, row.hash = append.events[-1].seq, append.events[-1].hash
        row.state, row.terminal, row.outcome = append.state, append.terminal, append.outcome
        self.put_blobs(row.key.tenant, append.blobs)
        for name in append.finished:
            row.commands.pop(name, None)
        row.commands |= {command.id: command for command in append.issued}
        if row.terminal:
            row.commands.clear()

    def put_checkpoint(self, checkpoint: Checkpoint, fence: int) -> None:
        row = self._row(checkpoint.run)
        if row.fence != fence:
            raise FenceLost
        if checkpoint.seq > row.seq:
            raise HeadMoved
        newer = {seq: value for seq, value in row.checkpoints.items() if seq > checkpoint.seq}
        row.checkpoints = {**newer, checkpoint.seq: checkpoint}

    def drop_checkpoints(self, run: str) -> None:
        self.rows[run].checkpoints.clear()

    def put_blobs(self, tenant: Tenant, blobs: tuple[Blob, ...]) -> None:
        _check(blobs)
        self.blobs |= {(tenant.key, blob.digest): blob.data for blob in blobs}

    # --- leases ----------------------------------------------------------------------------------------------------

    def lease(self, owner: str, seconds: float) -> Lease | None:
        free = [row for row in self.rows.values() if not (row.terminal or row.held)]
        due = [(c.not_before, row.key.run) for row in free for c in row.commands.values() if c.not_before < NEVER]
        if not due:
            return None
        row = self.rows[min(due)[1]]
        row.fence += row.owner != owner
        row.owner = owner
        return _leased(row, owner, seconds)

    def renew(self, lease: Lease, seconds: float) -> Lease:
        if not self._is_of(lease):
            raise FenceLost
        return _leased(self.rows[lease.run], lease.owner, seconds)

    def release(self, lease: Lease) -> None:
        if self._is_of(lease):
            self.rows[lease.run].held = False

    def _is_of(self, lease: Lease) -> bool:
        row = self.rows.get(lease.run)
        return row is not None and (row.owner, row.fence) == (lease.owner, lease.fence)

    # --- reading ---------------------------------------------------------------------------------------------------

    def head(self, run: str) -> RunHead | None:
        return self.rows[run].head() if run in self.rows else None

    def events(self, run: str, after: int = 0, limit: int | None = None) -> list[EventRecord]:
        events = self.rows[run].events if run in self.rows else []
        return [event for event in events if event.seq > after][:limit]

    def commands(self, run: str) -> list[PendingCommand]:
        commands = self.rows[run].commands.values() if run in self.rows else ()
        return sorted(commands, key=lambda command: (command.not_before, command.id))

    def checkpoint(self, run: str) -> Checkpoint | None:
        checkpoints = self.rows[run].checkpoints if run in self.rows else {}
        return checkpoints[max(checkpoints)] if checkpoints else None

    def get_blob(self, tenant: Tenant, digest: str) -> bytes | None:
        return self.blobs.get((tenant.key, digest))

    def runs(
        self, tenant: Tenant | None = None, *, live_only: bool = False, limit: int = 1000, after: str = ""
    ) -> list[RunHead]:
        rows = (row for run, row in sorted(self.rows.items()) if run > after and not (live_only and row.terminal))
        return [row.head() for row in rows if tenant in (None, row.key.tenant)][:limit]

    def finished_before(self, tenant: Tenant, name: str, template_digest: str, input_digest: str) -> RunHead | None:
        asked = (tenant, name, template_digest, input_digest)
        rows = [
            row
            for row in self.rows.values()
            if row.terminal and (row.key.tenant, row.key.name, row.key.template_digest, row.key.input_digest) == asked
        ]
        return max(rows, key=lambda row: row.moved).head() if rows else None

    def newest_named(self, tenant: Tenant, name: str) -> RunHead | None:
        rows = [row for row in self.rows.values() if (row.key.tenant, row.key.name) == (tenant, name)]
        return max(rows, key=lambda row: row.born).head() if rows else None

    def changed_since(self, cursor: int) -> tuple[int, list[str]]:
        """The cursor counts moves of heads; what has moved after it, and no run more."""
        return self.moves, [run for run, row in self.rows.items() if row.moved > cursor]

    def _row(self, run: str) -> Row:
        if run not in self.rows:
            raise RunNotFound
        return self.rows[run]


def _check(blobs: tuple[Blob, ...]) -> None:
    if any(sha256_digest(blob.data) != blob.digest for blob in blobs):
        raise BlobMismatch


def _leased(row: Row, owner: str, seconds: float) -> Lease:
    row.held = seconds > 1
    return Lease(row.key.run, owner, row.fence, 0, row.seq)
