"""The worker: takes runs under lease, keeps the leases, wakes sessions, hands over when it is told to stop (R11)."""

import asyncio
import uuid

import structlog

from agentrun.core.errors import AgentrunError
from agentrun.harness.attempt import Superseded
from agentrun.harness.ports import World
from agentrun.harness.session import RunSession
from agentrun.harness.tasks import end
from agentrun.journal.port import FenceLost, JournalUnavailable, Lease

WATCH_PAUSE = 0.05  # at most so often is asked what changed
_log = structlog.get_logger()


class _Held:
    """A session and the task that runs it."""

    def __init__(self, session: RunSession, task: asyncio.Task[None], now: float) -> None:
        self.session = session
        self.task = task
        self.renewed_at = now


class Worker:
    """One per process. Its owner id is fresh, so that no earlier process is ever taken for this one (C9)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._owner = _fresh_owner()
        self._held: dict[str, _Held] = {}
        self._wake = asyncio.Event()
        self._cursor = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`; then what is in flight gets the grace to end, and every lease is given back."""
        keepers = [asyncio.create_task(loop()) for loop in (self._renew_for_ever, self._watch_for_ever)]
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                self._wake.clear()
                full = await self._take_runs(stop)
                waker = asyncio.create_task(self._wake.wait())
                tasks = {held.task for held in self._held.values()} if full else set[asyncio.Task[None]]()
                timeout = None if full else self._world.limits.poll
                await asyncio.wait({stopped, waker, *tasks}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                waker.cancel()
            await self._drain()
        finally:
            await end([*keepers, stopped])

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs in hand."""
        return tuple(self._held)

    # --- taking ----------------------------------------------------------------------------------------------------

    async def _take_runs(self, stop: asyncio.Event) -> bool:
        """Lease until no run is due; true if there is no room for more."""
        while len(self._held) < self._world.limits.workers and not stop.is_set():
            try:
                lease = await self._world.journal.lease(self._owner, self._world.limits.lease)
            except JournalUnavailable as error:
                _log.warning("journal_unavailable", error=str(error))
                return False
            if lease is None:
                return False
            await self._take(lease)
        return True

    async def _take(self, lease: Lease) -> None:
        held = self._held.get(lease.run)
        if held is not None and held.session.lease.fence == lease.fence:
            held.session.lease = lease  # our own, renewed late: still ours
            held.renewed_at = _now()
            return
        if held is not None:
            await self._let_go(held)
        session = RunSession(self._world, lease)
        self._held[lease.run] = _Held(session, asyncio.create_task(self._work(session)), _now())

    async def _work(self, session: RunSession) -> None:
        run, fence = session.lease.run, session.lease.fence
        try:
            await session.run()
        except (FenceLost, Superseded) as lost:
            _log.warning("lease_lost", run=run, fence=fence, error=str(lost))
            self._forget(session)
        except asyncio.CancelledError:
            self._forget(session)
            raise
        except Exception as error:  # noqa: BLE001  (one run's trouble must not end the others)
            # The lease is left to run out: the run is tried again then, by whoever takes it under a higher fence.
            if isinstance(error, AgentrunError):
                _log.error("run_failed", run=run, fence=fence, error=str(error), kind=type(error).__name__)
            else:
                _log.exception("run_failed", run=run, fence=fence)
            self._owner = _fresh_owner()
            self._forget(session)
        else:
            self._forget(session)
            await self._release(session.lease)

    def _forget(self, session: RunSession) -> None:
        held = self._held.get(session.lease.run)
        if held is not None and held.session is session:
            del self._held[session.lease.run]
        self._wake.set()

    async def _release(self, lease: Lease) -> None:
        try:
            await self._world.journal.release(lease)
        except JournalUnavailable as error:
            _log.warning("lease_not_released", run=lease.run, error=str(error))

    # --- keeping ---------------------------------------------------------------------------------------------------

    async def _renew_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._world.limits.renew)
            await asyncio.gather(*(self._renew(held) for held in list(self._held.values())))

    async def _renew(self, held: _Held) -> None:
        try:
            held.session.lease = await self._world.journal.renew(held.session.lease, self._world.limits.lease)
            held.renewed_at = _now()
        except FenceLost as lost:
            if not held.task.done() and self._held.get(held.session.lease.run) is held:
                _log.warning("lease_lost", run=held.session.lease.run, error=str(lost))
                await self._let_go(held)
        except JournalUnavailable as error:
            _log.warning("lease_not_renewed", run=held.session.lease.run, error=str(error))
            if _now() - held.renewed_at > self._world.limits.lease:
                await self._let_go(held)  # somebody else may have it: effects stop, whoever comes next goes on

    async def _let_go(self, held: _Held) -> None:
        """End a session without a word to the journal."""
        await end([held.task])

    # --- watching --------------------------------------------------------------------------------------------------

    async def _watch_for_ever(self) -> None:
        """A hint that something changed wakes whom it concerns; polling is the safety net."""
        while True:
            try:
                await self._world.journal.wait_change(self._world.limits.poll)
                self._cursor, changed = await self._world.journal.changed_since(self._cursor)
            except JournalUnavailable as error:
                _log.warning("journal_unavailable", error=str(error))
                await asyncio.sleep(self._world.limits.poll)
                continue
            for run in changed:
                held = self._held.get(run)
                if held is not None:
                    held.session.look()
            self._wake.set()
            await asyncio.sleep(WATCH_PAUSE)

    # --- ending ----------------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        for held in self._held.values():
            held.session.drain()
        tasks = {held.task for held in self._held.values()}
        if tasks:
            await asyncio.wait(tasks, timeout=self._world.limits.grace)
        for held in list(self._held.values()):
            await self._let_go(held)
            await self._release(held.session.lease)


def _fresh_owner() -> str:
    return str(uuid.uuid4())


def _now() -> float:
    return asyncio.get_running_loop().time()
