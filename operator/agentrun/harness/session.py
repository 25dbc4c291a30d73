"""One run in the hands of its owner: reduce, dispatch, wait, record; nothing else appends its results (R6, R11)."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from agentrun.core import chain
from agentrun.core.events import Event, EventRecord, LeaseTaken, StepDispatched, encode
from agentrun.core.state import State, Step
from agentrun.core.transcript import Transcript
from agentrun.harness.attempt import Attempt, Result
from agentrun.harness.conversation import fingerprint
from agentrun.harness.dispatching import dispatched, due, next_due
from agentrun.harness.effects import perform
from agentrun.harness.effects.abandon import abandon
from agentrun.harness.facts import Blobs, RunFacts, load_facts
from agentrun.harness.ports import World
from agentrun.harness.tasks import end
from agentrun.journal.port import FenceLost, Lease
from agentrun.journal.runlog import RunLog

LINGER = 2_000_000  # microseconds: a step that is due so soon is waited for with the lease in hand


class Running:
    """An attempt whose effect is under way."""

    def __init__(self, attempt: Attempt, task: asyncio.Task[Result]) -> None:
        self.attempt = attempt
        self.task = task
        self.abandoned = False


class RunSession:
    """Made for one lease; `run()` ends when nothing of the run is due or in flight, or the fence is lost."""

    def __init__(self, world: World, lease: Lease) -> None:
        self._world = world
        self.lease = lease
        self._running: dict[tuple[str, int], Running] = {}
        self._changed = asyncio.Event()
        self._draining = False
        self._log: RunLog
        self._facts: RunFacts
        self._blobs: Blobs
        self._transcript = Transcript()
        self._fed = 0

    # --- from outside ----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Somebody may have appended to the run."""
        self._changed.set()

    def drain(self) -> None:
        """Begin nothing more; end when what is in flight has ended."""
        self._draining = True
        self._changed.set()

    # --- the loop --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Raises FenceLost or Superseded: the run is another's now, and nothing more was appended."""
        try:
            await self._open()
            while await self._step():
                pass
        finally:
            await self._cancel(list(self._running.values()))

    async def _open(self) -> None:
        world = self._world
        self._log = await RunLog.load(world.journal, world.clock, self.lease.run)
        self._blobs = Blobs(world.journal, self._log.state.tenant)
        self._facts = await load_facts(self._blobs, self._log.state)
        records = await world.journal.events(self.lease.run)
        chain.verify(records)
        self._feed(records)
        flying = self._log.state.flying
        if any(step.fence >= self.lease.fence for step in flying):
            raise FenceLost(f"run {self.lease.run}: its steps in flight are not of an older fence than the lease")
        if flying:
            await self._record([LeaseTaken(self.lease.owner)])

    async def _step(self) -> bool:
        """One round: false when the lease may be given back."""
        await self._drop_unwanted()
        self._stop_work()
        self._start_dispatched()
        if self._begin_more(self._log.state):
            await self._record([])
            return True
        if not self._running and (self._draining or not self._due_soon()):
            return False
        await self._wait()
        await self._look_around()
        await self._collect()
        return True

    def _due_soon(self) -> bool:
        at = next_due(self._log.state)
        return at is not None and at - self._world.clock() < LINGER

    async def _wait(self) -> None:
        """Until an effect ends, somebody appends, or the next step is due."""
        at, now, poll = next_due(self._log.state), self._world.clock(), self._world.limits.poll
        seconds = poll if at is None or at <= now else min(poll, (at - now) / 1e6)
        changed = asyncio.create_task(self._changed.wait())
        tasks = {running.task for running in self._running.values()}
        try:
            await asyncio.wait({changed, *tasks}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()

    async def _look_around(self) -> None:
        if not self._changed.is_set():
            return
        self._changed.clear()
        self._feed(await self._log.refresh())
        if self._log.fence > self.lease.fence:
            raise FenceLost(f"run {self.lease.run}: fence {self.lease.fence} was overtaken by {self._log.fence}")

    # --- effects ---------------------------------------------------------------------------------------------------

    def _start_dispatched(self) -> None:
        """Level-triggered: what is in flight under this fence has a task."""
        for step in self._log.state.flying:
            if (step.id, step.attempt) not in self._running:
                attempt = self._attempt(step)
                self._running[step.id, step.attempt] = Running(attempt, asyncio.create_task(perform(attempt)))

    def _attempt(self, step: Step) -> Attempt:
        entries = self._transcript.entries(self._log.state) if step.kind == "model" else ()
        return Attempt(self._world, self._facts, self._blobs, step, self.lease.fence, lambda: self._log.state, entries)

    async def _drop_unwanted(self) -> None:
        """An attempt that the history has moved past is cancelled; nothing is recorded of it."""
        flying = {(step.id, step.attempt) for step in self._log.state.flying}
        gone = [key for key, running in self._running.items() if key not in flying and not running.task.done()]
        await self._cancel([self._running.pop(key) for key in gone])

    def _stop_work(self) -> None:
        """A stop reaches live calls: they are ended, and recorded as abandoned (R9)."""
        stop = self._log.state.stop
        if stop is None:
            return
        for running in self._running.values():
            if not running.abandoned and not running.task.done():
                running.abandoned = True
                running.task = asyncio.create_task(abandon(running.attempt, running.task, stop.mode))

    async def _cancel(self, runnings: Sequence[Running]) -> None:
        await end(running.task for running in runnings)

    async def _collect(self) -> None:
        done = [key for key, running in self._running.items() if running.task.done()]
        results = [self._running.pop(key).task.result() for key in done]
        for result in results:
            for blob in result.blobs:
                self._blobs.keep(blob.digest, blob.data)
            await self._record(result.events, result)

    # --- recording -------------------------------------------------------------------------------------------------

    async def _record(self, events: Sequence[Event], result: Result | None = None) -> None:
        """One commit: the results, and the dispatch of what follows from them."""
        blobs = result.blobs if result is not None else ()
        records = await self._log.record(events, self.lease.fence, blobs, then=self._following(events))
        self._feed(records)

    def _following(self, events: Sequence[Event]) -> Callable[[State], Sequence[Event]]:
        return lambda state: self._begin_more(state, events)

    def _begin_more(self, state: State, pending: Sequence[Event] = ()) -> list[StepDispatched]:
        """The dispatch of every step that is due in this state; `pending` are events on the way into the history."""
        if self._draining or state.terminal:
            return []
        now = self._world.clock()
        steps = due(state, now, self._slots(state))
        made = (dispatched(state, step, now, lambda s: self._fingerprint(s, pending)) for step in steps)
        return [event for event in made if event is not None]

    def _slots(self, state: State) -> int:
        return min(self._world.limits.calls, state.plan.budget.concurrency or self._world.limits.calls)

    # --- the conversation ------------------------------------------------------------------------------------------

    def _feed(self, records: Sequence[EventRecord]) -> None:
        self._transcript.feed(records)
        self._fed = records[-1].seq if records else self._fed

    def _fingerprint(self, state: State, pending: Sequence[Event]) -> str | None:
        """Of the model request that this state calls for; None while the transcript lags behind the history."""
        if self._fed != self._log.seq:
            return None
        ahead = self._transcript.copy()
        ahead.feed(self._as_records(pending))
        return fingerprint(self._facts, state.input_digest, ahead.entries(_delivering(state)))

    def _as_records(self, events: Sequence[Event]) -> list[EventRecord]:
        return [
            chain.link(
                encode(event), run=self.lease.run, seq=self._fed + 1 + index, fence=self.lease.fence,
                recorded_at=0, prev_hash=chain.GENESIS,
            )
            for index, event in enumerate(events)
        ]  # fmt: skip


def _delivering(state: State) -> State:
    """The state as it will be once the model call is dispatched: waiting messages are given to it."""
    steering = tuple(
        replace(steer, turn=state.turn) if not steer.turn and steer.deliver_at == "NextModelCall" else steer
        for steer in state.steering
    )
    return replace(state, steering=steering)
