"""Pause, steer, cancel and drain of live work (R9), with the real parts."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests.integration.harness_kit import LIMITS, Kit, call, calls, eventually, kit, template, working

from agentrun.broker.client import BrokerClient
from agentrun.broker.wire import ModelAnswer, ModelCall, SignAnswer, SignCall
from agentrun.core.digest import sha256_digest
from agentrun.core.events import (
    Actor,
    LeaseTaken,
    ModeChanged,
    SandboxStarted,
    SteeringAdded,
    StepAbandoned,
    StepDispatched,
    ToolCompleted,
)
from agentrun.core.state import State
from agentrun.harness.ports import World
from agentrun.journal.port import Blob

FILES = {"a.txt": b"a\n"}


def flying(kind: str) -> Callable[[State], bool]:
    """Whether a step of that kind is in flight."""
    return lambda state: any(step.kind == kind for step in state.flying)


def processes_with(mark: str) -> list[int]:
    """Living processes whose command line holds a mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line, state = (
                    (entry / "cmdline").read_bytes(),
                    (entry / "stat").read_text().rpartition(")")[2].split()[0],
                )
            except OSError:
                continue
            if mark.encode() in line and state != "Z":
                found.append(int(entry.name))
    return found


class Listening:
    """The real broker, and what it was asked."""

    def __init__(self, client: BrokerClient) -> None:
        self._client = client
        self.models: list[ModelCall] = []
        self.signed: list[SignCall] = []

    async def model(self, call: ModelCall) -> ModelAnswer:
        """See BrokerClient."""
        self.models.append(call)
        return await self._client.model(call)

    async def sign(self, call: SignCall) -> SignAnswer:
        """See BrokerClient."""
        self.signed.append(call)
        return await self._client.sign(call)


@asynccontextmanager
async def listening(folder: Path, **options: object) -> AsyncIterator[tuple[Kit, Listening]]:
    """A kit whose broker is listened to."""
    async with kit(folder, **options) as made:  # type: ignore[arg-type]
        broker = made.world.broker
        assert isinstance(broker, BrokerClient)
        ears = Listening(broker)
        made.world = replace(made.world, broker=ears)
        yield made, ears


async def test_cancel_reaches_a_live_model_call_and_nothing_is_begun_after_it_C12(tmp_path: Path) -> None:
    script = template({"text": "too late", "delaySeconds": 25}, tools=[])
    async with kit(tmp_path) as made, working(made):
        run = await made.create(script)
        await made.until(run, flying("model"), "asking the model")
        await made.stop(run, "Cancel")
        state = await made.finished(run)
        assert state.outcome is not None
        assert state.outcome.reason == "Cancelled"
        assert len(await made.events(run, StepAbandoned)) == 1
        assert state.milestones.quiescent - state.milestones.requested < 10_000_000
        kinds = [record.kind for record in await made.history(run)]
        assert "StepDispatched" not in kinds[kinds.index("StopRequested") :]


async def test_cancel_ends_the_whole_tree_of_a_tool_double_forks_included_C13(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-c13"
    fork = f"(setsid sh -c '(sleep 601; : {mark}) & wait' &) ; exec sleep 602 # {mark}"
    script = template(calls(call("run", argv=["sh", "-c", fork, mark])), {"text": "done"})
    async with kit(tmp_path, operate=False) as made:
        run = await made.create(script)  # no files: nothing to put
        server = await made.sandboxes.create(run, "arun-run-1-w1")
        started = SandboxStarted("work", "arun-run-1-w1", server.pod_uid, "127.0.0.1", server.container_id)
        await made.accept(run, started, f"pod/{server.pod_uid}/started-1")
        async with working(made):
            await made.until(run, flying("tool"), "running the tool")
            await eventually(lambda: len(processes_with(mark)) == 2, "the double fork runs")
            await made.stop(run, "Cancel")
            await made.until(run, lambda state: state.stop is not None and not state.flying, "quiet")
            # The Pod is still there: the tool server has ended the tree, not the end of the Pod.
            assert server.process is not None
            assert server.process.returncode is None
            assert processes_with(mark) == []


async def test_a_tool_that_is_cancelled_leaves_no_unknown_effect_in_the_workspace(tmp_path: Path) -> None:
    script = template(calls(call("run", argv=["sleep", "600"])), {"text": "done"})
    async with kit(tmp_path) as made, working(made):
        run = await made.create(script, FILES)
        await made.until(run, flying("tool"), "running the tool")
        await made.stop(run, "Kill")
        state = await made.finished(run)
        assert state.outcome is not None
        assert state.outcome.reason == "Killed"
        assert state.unresolved == ()


async def test_pause_lets_live_work_end_and_begins_nothing_until_resume_C14(tmp_path: Path) -> None:
    script = template(calls(call("run", argv=["sleep", "1"])), {"text": "done"})
    async with kit(tmp_path) as made, working(made):
        run = await made.create(script, FILES)
        await made.until(run, flying("tool"), "running the tool")
        await made.accept(run, ModeChanged(True, 2, Actor("bob")), "spec/2/operatingMode")
        await made.until(run, lambda state: not state.flying, "drained")
        assert [done.status for done in await made.events(run, ToolCompleted)] == ["Ok"]
        before = len(await made.history(run))
        await made.accept(run, ModeChanged(False, 1, Actor("eve")), "spec/1/operatingMode")  # older: ignored
        await asyncio.sleep(1.0)  # longer than any polling interval of this harness
        assert len(await made.history(run)) == before + 1
        await made.accept(run, ModeChanged(False, 3, Actor("bob")), "spec/3/operatingMode")
        state = await made.finished(run)
        assert state.outcome is not None
        assert state.outcome.completed


async def test_steering_reaches_the_next_model_call_once_and_every_request_is_well_formed_C53(tmp_path: Path) -> None:
    script = template(
        calls(call("run", argv=["sleep", "1"]), call("nonsense"), {"name": "read", "arguments": "{"}),
        calls(call("list")),
        {"text": "done"},
    )
    async with listening(tmp_path) as (made, ears), working(made):
        run = await made.create(script, FILES)
        state = await made.until(run, flying("tool"), "running the tool")
        said = b"Use Python 3."
        await made.journal.put_blobs(state.tenant, [Blob(sha256_digest(said), said)])
        await made.accept(run, SteeringAdded("s1", sha256_digest(said), "NextModelCall", Actor("bob")), "steering/s1")
        final = await made.finished(run)
        assert [steer.turn for steer in final.steering] == [2]
        for asked in ears.models:
            waiting: set[str] = set()
            for message in asked.request.messages:
                if message.role == "tool":
                    waiting.remove(message.call_id)
                else:
                    assert not waiting, "every call is answered before anybody else speaks"
                waiting |= {proposed.id for proposed in message.tool_calls}
            assert not waiting
        told = [[m.text for m in asked.request.messages].count(said.decode()) for asked in ears.models]
        assert told == [0, 1, 1]
        roles = [message.role for message in ears.models[1].request.messages]
        assert roles == ["system", "user", "assistant", "tool", "tool", "tool", "user"]


async def test_a_draining_harness_hands_over_at_once_and_no_tool_runs_twice_R11(tmp_path: Path) -> None:
    script = template(
        calls(call("run", argv=["sh", "-c", "echo x >> count; sleep 3"])),
        calls(call("run", argv=["true"])),
        {"text": "done"},
    )
    limits = replace(LIMITS, lease=60.0, grace=0.2)
    async with kit(tmp_path, limits=limits) as made:
        async with working(made):
            run = await made.create(script, FILES)
            await made.until(run, flying("tool"), "running the tool")
        async with working(made):  # a lease of a minute does not stand in the way: it was given back
            state = await made.finished(run)
        assert state.outcome is not None
        assert state.outcome.completed
        assert len(await made.events(run, LeaseTaken)) == 1
        dispatches = [(d.step, d.attempt) for d in await made.events(run, StepDispatched)]
        assert ("t1c0", 2) in dispatches
        snapshot = await made.blob(state.snapshot or "")
        assert snapshot.count(b"x\n") == 1


async def test_a_worker_whose_lease_ran_out_writes_nothing_more_C3(tmp_path: Path) -> None:
    """Two owners in one process: the first does not renew, the second takes over; the command runs once."""
    script = template(calls(call("run", argv=["sh", "-c", "echo x >> count; sleep 2"])), {"text": "done"})
    deaf = replace(LIMITS, lease=0.6, renew=1000.0, poll=0.1)
    async with kit(tmp_path, limits=deaf) as made:
        run = await made.create(script, FILES)
        first = working(made)
        await first.__aenter__()
        await made.until(run, flying("tool"), "running the tool")
        made.world = with_limits(made.world, replace(LIMITS, poll=0.1))
        async with working(made):
            state = await made.finished(run)
        await first.__aexit__(None, None, None)
        assert state.outcome is not None
        assert state.outcome.completed
        fences = [record.fence for record in await made.history(run)]
        assert fences == sorted(fences), "no event of an older fence after one of a newer"
        assert (await made.blob(state.snapshot or "")).count(b"x\n") == 1


def with_limits(world: World, limits: object) -> World:
    """Another worker's limits."""
    return replace(world, limits=limits)  # type: ignore[arg-type]
