"""The port's methods over operations: a store only has to run an operation in a transaction."""

from collections.abc import Generator, Sequence
from typing import Protocol, TypeVar

from agentrun.core.events import EventRecord
from agentrun.core.ids import Tenant
from agentrun.journal import operations as ops
from agentrun.journal.operations import Rows, Statement
from agentrun.journal.port import Append, Blob, Checkpoint, Lease, PendingCommand, RunHead, RunKey

T = TypeVar("T")
Operation = Generator[Statement, Rows, T]


class Runner(Protocol):
    """Runs operations: writes in one transaction of their own, reads on a snapshot."""

    async def write(self, operation: Operation[T]) -> T: ...

    async def read(self, operation: Operation[T]) -> T: ...


class Store:
    """The `Journal` port but for waiting and closing."""

    #: how far behind the store's clock a change may become visible, microseconds
    overlap = 0

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def create_run(self, key: RunKey, append: Append) -> bool:
        return await self._runner.write(ops.create_run(key, append))

    async def append(self, append: Append) -> None:
        await self._runner.write(ops.append(append))

    async def head(self, run: str) -> RunHead | None:
        return await self._runner.read(ops.head(run))

    async def events(self, run: str, after: int = 0, limit: int | None = None) -> list[EventRecord]:
        return await self._runner.read(ops.events(run, after, limit))

    async def commands(self, run: str) -> list[PendingCommand]:
        return await self._runner.read(ops.commands(run))

    async def checkpoint(self, run: str) -> Checkpoint | None:
        return await self._runner.read(ops.checkpoint(run))

    async def put_checkpoint(self, checkpoint: Checkpoint, fence: int) -> None:
        await self._runner.write(ops.put_checkpoint(checkpoint, fence))

    async def drop_checkpoints(self, run: str) -> None:
        await self._runner.write(ops.drop_checkpoints(run))

    async def lease(self, owner: str, seconds: float) -> Lease | None:
        return await self._runner.write(ops.lease(owner, seconds))

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        return await self._runner.write(ops.renew(lease, seconds))

    async def release(self, lease: Lease) -> None:
        await self._runner.write(ops.release(lease))

    async def put_blobs(self, tenant: Tenant, blobs: Sequence[Blob]) -> None:
        await self._runner.write(ops.put_blobs(tenant, blobs))

    async def get_blob(self, tenant: Tenant, digest: str) -> bytes | None:
        return await self._runner.read(ops.get_blob(tenant, digest))

    async def runs(
        self, tenant: Tenant | None = None, *, live_only: bool = False, limit: int = 1000, after: str = ""
    ) -> list[RunHead]:
        return await self._runner.read(ops.runs(tenant, after, limit, live=live_only))

    async def finished_before(
        self, tenant: Tenant, name: str, template_digest: str, input_digest: str
    ) -> RunHead | None:
        return await self._runner.read(ops.finished_before(tenant, name, template_digest, input_digest))

    async def newest_named(self, tenant: Tenant, name: str) -> RunHead | None:
        return await self._runner.read(ops.newest_named(tenant, name))

    async def changed_since(self, cursor: int) -> tuple[int, list[str]]:
        return await self._runner.read(ops.changed_since(cursor, self.overlap))

    async def now(self) -> int:
        return await self._runner.read(ops.now())

    async def epoch(self) -> int:
        return await self._runner.read(ops.epoch())
