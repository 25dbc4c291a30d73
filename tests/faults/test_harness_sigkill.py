"""SIGKILL of the harness in every state and at every boundary: the run goes on, no tool runs twice (R6, R11, C7)."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.integration.harness_kit import (
    BOUND,
    TOKEN,
    Cluster,
    Kit,
    Object,
    RunningBroker,
    Sandboxes,
    broker,
    call,
    calls,
    eventually,
    template,
)

from agentrun.broker.keys import new_keys
from agentrun.core.events import EventRecord, LeaseTaken, decode
from agentrun.harness.ports import World
from agentrun.journal import open_journal
from agentrun.tools.workspace import read

ROOT = Path(__file__).resolve().parents[2]
Figure = Callable[[str, int | float], None]


@dataclass
class Rig:
    """Broker and tool servers that outlive the harness."""

    folder: Path
    cluster: Cluster
    sandboxes: Sandboxes
    served: RunningBroker
    stack: AsyncExitStack

    async def create(self, name: str, made: Object, files: dict[str, bytes]) -> "Victim":
        """A run, its Pods running already, and the journal closed again."""
        folder = self.folder / name
        folder.mkdir()
        journal = await open_journal(f"sqlite:///{folder}/journal.db")
        world = World(journal, self.served.client, self.sandboxes, self.sandboxes)
        run = await Kit(journal, self.cluster, self.sandboxes, world).create(made, files, name=name)
        await journal.close()
        pods = {}
        for pod in (f"arun-{name}-w1", *(f"arun-{name}-v{number}" for number in (1, 2) if "verification" in made)):
            server = await self.sandboxes.create(run, pod)
            pods[pod] = {"uid": server.pod_uid, "container_id": server.container_id, "port": server.port}
        (folder / "pods.json").write_text(json.dumps(pods))
        return Victim(self, folder, run)


@dataclass
class Victim:
    """One run and the processes that work on it, one after the other."""

    rig: Rig
    folder: Path
    run: str

    async def start(self, kill_at: int = 0) -> asyncio.subprocess.Process:
        """A harness process."""
        config = {
            "journal": f"sqlite:///{self.folder}/journal.db", "broker": self.rig.served.url, "ca": self.rig.served.ca,
            "token": TOKEN, "pods": str(self.folder / "pods.json"), "run": self.run, "kill_at": kill_at,
        }  # fmt: skip
        path = self.folder / "config.json"
        path.write_text(json.dumps(config))
        env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}"}
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.mortal", str(path),
            env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def until_said(self, process: asyncio.subprocess.Process, words: str) -> bool:
        """Whether the process says this before it ends."""
        assert process.stdout is not None
        async with asyncio.timeout(BOUND):
            while line := (await process.stdout.readline()).decode():
                if words in line:
                    return True
        return False

    async def finish(self, kill_at: int = 0) -> tuple[int, str]:
        """Let a process work until it ends: exit status (-9 for killed) and what it said."""
        process = await self.start(kill_at)
        out, err = await asyncio.wait_for(process.communicate(), BOUND)
        assert process.returncode in (0, -9), err.decode()
        return process.returncode, out.decode()

    async def check(self) -> int:
        """Every promise about the history and the workspace; returns how often a command ran beyond once."""
        journal = await open_journal(f"sqlite:///{self.folder}/journal.db")
        try:
            made = Kit(journal, self.rig.cluster, self.rig.sandboxes, World(journal, *[None] * 3))  # type: ignore[arg-type]
            state, history = await made.state(self.run), await made.history(self.run)
            assert state.outcome is not None
            assert state.outcome.completed, state.outcome
            assert state.evidence == 0, "no late or repeated answer was accepted"
            _check_history(history)
            snapshot = read(await made.blob(state.snapshot or ""), 1_000_000)
        finally:
            await journal.close()
        return snapshot.files["count"].data.count(b"x") - 1


def _check_history(history: list[EventRecord]) -> None:
    fences = [record.fence for record in history if record.source_key is None]
    assert fences == sorted(fences)
    dispatched: dict[str, int] = {}
    answered: set[str] = set()
    for record in history:
        event: Any = decode(record)
        if record.kind == "StepDispatched":
            assert event.attempt == dispatched.get(event.step, 0) + 1
            dispatched[event.step] = event.attempt
        elif record.source_key is None and not isinstance(event, LeaseTaken):
            assert event.attempt == dispatched[event.step]
            assert event.step not in answered
            answered.add(event.step)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """Broker and sandboxes."""
    async with _rig(tmp_path) as made:
        yield made


@asynccontextmanager
async def _rig(folder: Path) -> AsyncIterator[Rig]:
    async with AsyncExitStack() as stack:
        keys = new_keys(datetime.now(UTC))
        sandboxes = Sandboxes(folder / "pods", keys)
        stack.push_async_callback(sandboxes.close)
        cluster = Cluster(sandboxes)
        served = await stack.enter_async_context(broker(cluster, folder / "gate.db", keys))
        yield Rig(folder, cluster, sandboxes, served, stack)


COUNT = "echo x >> count"
CHECK = {"argv": ["sh", "-c", "sleep 1; test -s count"]}
SLOW = template(
    {**calls(call("run", argv=["sh", "-c", f"{COUNT}; sleep 1"])), "delaySeconds": 1},
    {"text": "done", "delaySeconds": 1},
    verification=CHECK,
)
QUICK = template(calls(call("run", argv=["sh", "-c", COUNT])), {"text": "done"}, verification={"argv": ["true"]})
# What is in flight when the process dies.
STATES = {
    "ready": "boundary 1 ",
    "waiting_model": "waiting_model model",
    "running-put": "running put",
    "waiting_tool": "waiting_tool tool",
    "running-get": "running get",
    "running-verify": "running verify",
}


async def test_a_harness_killed_in_any_state_is_followed_by_one_that_finishes_the_run_R6(
    rig: Rig, figure: Figure
) -> None:
    reached, repeated = 0, 0
    for name, words in STATES.items():
        victim = await rig.create(name, SLOW, {"a.txt": b"a"} if name == "running-put" else {})
        process = await victim.start()
        if await victim.until_said(process, words):
            if name == "waiting_tool":  # the command must have begun, or nothing could run twice
                await eventually((rig.sandboxes.pods[f"arun-{name}-w1"].workspace / "count").exists, "it has begun")
            process.kill()
            reached += 1
        await process.communicate()
        status, said = await victim.finish()
        assert status == 0, said
        repeated += await victim.check()
    assert reached >= len(STATES) - 2, "the short states may be missed, the long ones never"
    assert repeated == 0
    figure("crash.states", reached)
    figure("crash.tools_repeated", repeated)


async def test_a_harness_killed_at_every_boundary_leaves_a_run_that_finishes_and_no_tool_runs_twice_R6(
    rig: Rig, figure: Figure
) -> None:
    tried, repeated = 0, 0
    while True:
        victim = await rig.create(f"b{tried + 1}", QUICK, {})
        status, said = await victim.finish(kill_at=tried + 1)
        if status == 0:
            break  # there are no more boundaries
        tried += 1
        status, said = await victim.finish()
        assert status == 0, said
        repeated += await victim.check()
    assert tried >= 20, "a run of five steps has at least four boundaries each"
    assert repeated == 0
    figure("crash.boundaries", tried)
    figure("crash.boundaries_repeated", repeated)
