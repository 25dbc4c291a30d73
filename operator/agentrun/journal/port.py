"""The port `Journal`: what a store of histories must do, whatever database is under it (R4, R6, R11)."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from agentrun.core.errors import AgentrunError, Retry
from agentrun.core.events import EventRecord
from agentrun.core.ids import Tenant


class HeadMoved(AgentrunError):
    """Somebody appended meanwhile: reload the tail and reduce again."""

    retry = Retry.RELOAD


class FenceLost(AgentrunError):
    """The lease went to another owner; nothing of this owner is accepted any more (R11)."""


class AlreadyAccepted(AgentrunError):
    """An event with this source key is in the history: the fact is recorded, do nothing."""


class RunNotFound(AgentrunError):
    """No such run in this journal."""


class JournalUnavailable(AgentrunError):
    """The store does not answer; the same call may be made again."""

    retry = Retry.RELOAD


class SchemaMismatch(AgentrunError):
    """The store's schema is newer or older than this build can use safely; the message says which and what to do."""


class Blob(msgspec.Struct, frozen=True):
    """Content-addressed bytes. `digest` must be `sha256_digest(data)`; stores refuse anything else."""

    digest: str
    data: bytes


class RunKey(msgspec.Struct, frozen=True):
    """Who a run is: never its name alone."""

    run: str  # AgentRun UID
    tenant: Tenant
    namespace: str
    name: str
    definition: str
    template_digest: str
    input_digest: str
    requester: str
    reducer_version: int


class RunHead(msgspec.Struct, frozen=True):
    """One row: where a run's history stands now. Times in microseconds UTC."""

    key: RunKey
    seq: int
    hash: str
    fence: int
    owner: str | None
    lease_until: int
    state: str  # visible state at the head; for lists only, never read as truth
    terminal: bool
    outcome: str | None  # reason of the terminal outcome
    created_at: int
    updated_at: int


class PendingCommand(msgspec.Struct, frozen=True):
    """A command that is issued and not finished. `not_before` in microseconds UTC (0: at once)."""

    id: str
    kind: str
    body: bytes
    not_before: int


class Append(msgspec.Struct, frozen=True):
    """One transaction: check fence and head, insert events, advance head, insert and finish commands."""

    run: str
    expected_seq: int  # head before
    fence: int | None  # results carry the lease's fence; accepted facts None: they keep the fence they find
    events: tuple[EventRecord, ...]  # numbered and chained by the caller from the head it knows
    issued: tuple[PendingCommand, ...] = ()
    finished: tuple[str, ...] = ()  # command ids, finished or withdrawn
    blobs: tuple[Blob, ...] = ()
    state: str = "created"
    terminal: bool = False
    outcome: str | None = None


class Lease(msgspec.Struct, frozen=True):
    """Bounded right to append results to one run."""

    run: str
    owner: str
    fence: int
    until: int
    seq: int


class Checkpoint(msgspec.Struct, frozen=True):
    """A verified position plus the state there; an optimisation, never a second truth (R4)."""

    run: str
    seq: int
    hash: str  # chain hash of the event at seq
    reducer_version: int
    state: bytes
    state_digest: str


class Journal(Protocol):
    """Every method raises JournalUnavailable when the store does not answer."""

    async def create_run(self, key: RunKey, append: Append) -> bool:
        """Insert the run with its first event (expected_seq 0). False if it was there already (R13, C10)."""
        ...

    async def append(self, append: Append) -> None:
        """Raises HeadMoved, FenceLost, AlreadyAccepted, RunNotFound. FenceLost is checked before HeadMoved."""
        ...

    async def head(self, run: str) -> RunHead | None: ...

    async def events(self, run: str, after: int = 0, limit: int | None = None) -> list[EventRecord]:
        """Events with seq > after, in order, as stored (not yet verified; RunLog verifies the chain)."""
        ...

    async def commands(self, run: str) -> list[PendingCommand]: ...

    async def checkpoint(self, run: str) -> Checkpoint | None:
        """The newest checkpoint."""
        ...

    async def put_checkpoint(self, checkpoint: Checkpoint, fence: int) -> None:
        """Keep a checkpoint; raises FenceLost, and HeadMoved if its seq is beyond the head."""
        ...

    async def drop_checkpoints(self, run: str) -> None: ...

    async def lease(self, owner: str, seconds: float) -> Lease | None:
        """Claim one run: not terminal, free or expired, with a due command. Fence rises only on a change of hands."""
        ...

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """Prolong; raises FenceLost."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give up (no error if it is lost already)."""
        ...

    async def put_blobs(self, tenant: Tenant, blobs: Sequence[Blob]) -> None: ...

    async def get_blob(self, tenant: Tenant, digest: str) -> bytes | None: ...

    async def runs(
        self, tenant: Tenant | None = None, *, live_only: bool = False, limit: int = 1000, after: str = ""
    ) -> list[RunHead]:
        """Runs by id order, page by page."""
        ...

    async def finished_before(
        self, tenant: Tenant, name: str, template_digest: str, input_digest: str
    ) -> RunHead | None:
        """The newest terminal run of this tenant with this name and these digests (AlreadyRan, C34)."""
        ...

    async def newest_named(self, tenant: Tenant, name: str) -> RunHead | None:
        """The newest run of this tenant with this name, finished or not (R1)."""
        ...

    async def changed_since(self, cursor: int) -> tuple[int, list[str]]:
        """Runs whose head moved since the cursor (microseconds, the store's clock), and the next cursor.

        May repeat a run, never omits one.
        """
        ...

    async def wait_change(self, timeout: float) -> None:
        """Return when something may have changed, or after `timeout` seconds at the latest. A hint only."""
        ...

    async def now(self) -> int:
        """The store's clock, microseconds UTC; leases are judged by it."""
        ...

    async def epoch(self) -> int:
        """Raised in the transaction that notices a roll-back; status.head carries it."""
        ...

    async def close(self) -> None: ...
