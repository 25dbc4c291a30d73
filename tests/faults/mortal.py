"""A harness process that can be ended by SIGKILL at every boundary: `python -m tests.faults.mortal CONFIG.json`.

It is composed like `serve`: SQLite journal, harness, and a stand-in for the operator that reports the Pods of a table.
Broker and tool servers live in the test's process and outlive it, as they do in a cluster.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentrun.broker.client import BrokerClient, fixed_text
from agentrun.broker.wire import ModelAnswer, ModelCall, SignAnswer, SignCall
from agentrun.core.events import SandboxStarted
from agentrun.core.needs import wants_verify_pod, wants_work_pod
from agentrun.core.state import State
from agentrun.core.visible import visible_state
from agentrun.harness.ports import Limits, PodIdentity, World, wall_clock
from agentrun.harness.worker import Worker
from agentrun.journal import open_journal
from agentrun.journal.port import Append, Journal
from agentrun.journal.runlog import RunLog
from agentrun.tools.podip import PodIPSandbox
from agentrun.tools.sandbox import SandboxAnswer, SandboxEndpoint

LIMITS = Limits(workers=4, lease=0.6, renew=0.2, poll=0.1, grace=5.0)


def say(*words: object) -> None:
    """One line for the test."""
    print(*words, flush=True)


class Boundaries:
    """Counts the places where something is committed or leaves the process, and ends it at one of them."""

    def __init__(self, kill_at: int) -> None:
        self._kill_at = kill_at
        self._count = 0

    def reach(self, name: str) -> None:
        """This place."""
        self._count += 1
        say("boundary", self._count, name)
        if self._count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class MortalJournal:
    """The journal, with a boundary on either side of each commit."""

    def __init__(self, journal: Journal, boundaries: Boundaries) -> None:
        self._journal = journal
        self._boundaries = boundaries

    def __getattr__(self, name: str) -> Any:
        """All else is the journal's."""
        return getattr(self._journal, name)

    async def append(self, append: Append) -> None:
        """See Journal."""
        kinds = "+".join(event.kind for event in append.events)
        self._boundaries.reach(f"before commit {kinds}")
        await self._journal.append(append)
        self._boundaries.reach(f"after commit {kinds}")


class MortalBroker:
    """The broker, with a boundary on either side of each call."""

    def __init__(self, client: BrokerClient, boundaries: Boundaries) -> None:
        self._client = client
        self._boundaries = boundaries

    async def model(self, call: ModelCall) -> ModelAnswer:
        """See BrokerClient."""
        self._boundaries.reach("before the model call")
        answer = await self._client.model(call)
        self._boundaries.reach("after the model call")
        return answer

    async def sign(self, call: SignCall) -> SignAnswer:
        """See BrokerClient."""
        return await self._client.sign(call)


class MortalSandboxes:
    """Pods of the table, with a boundary on either side of each dispatch."""

    def __init__(self, table: Path, boundaries: Boundaries) -> None:
        self._table = table
        self._boundaries = boundaries

    def pods(self) -> dict[str, dict[str, Any]]:
        """By name: uid, container_id, port."""
        found: dict[str, dict[str, Any]] = json.loads(self._table.read_text())
        return found

    async def identity(self, _namespace: str, name: str) -> PodIdentity | None:
        """See Pods."""
        pod = self.pods().get(name)
        return None if pod is None else PodIdentity(pod["uid"], "127.0.0.1", pod["container_id"])

    async def dispatch(
        self, endpoint: SandboxEndpoint, dispatch_jws: str, body: bytes, timeout: float
    ) -> SandboxAnswer:
        """See SandboxPort."""
        self._boundaries.reach("before the dispatch")
        port = self.pods()[endpoint.pod_name]["port"]
        answer = await PodIPSandbox(port).dispatch(endpoint, dispatch_jws, body, timeout)
        self._boundaries.reach("after the dispatch")
        return answer


async def operate(journal: Any, sandboxes: MortalSandboxes, run: str) -> State:
    """Report the wanted Pods until the run is over; say each state."""
    said = ""
    while True:
        log = await RunLog.load(journal, wall_clock, run)
        state = log.state
        words = f"{visible_state(state)} {','.join(step.kind for step in state.flying)}"
        if words != said:
            said = words
            say("state", words)
        if state.terminal:
            return state
        await _report(log, sandboxes)
        await asyncio.sleep(0.01)


async def _report(log: RunLog, sandboxes: MortalSandboxes) -> None:
    state, number = log.state, wants_verify_pod(log.state)
    wanted: Sequence[tuple[str, str]] = [
        *([("work", f"arun-{state.name}-w1")] if wants_work_pod(state) else []),
        *([("verify", f"arun-{state.name}-v{number}")] if number is not None else []),
    ]
    for purpose, name in wanted:
        pod = sandboxes.pods()[name]
        if all(seen.uid != pod["uid"] for seen in state.pods):
            started = SandboxStarted(purpose, name, pod["uid"], "127.0.0.1", pod["container_id"])
            await log.accept(started, f"pod/{pod['uid']}/started")


async def main(config: dict[str, Any]) -> None:
    """Work until the run is over."""
    boundaries = Boundaries(config["kill_at"])
    journal = await open_journal(config["journal"])
    mortal: Any = MortalJournal(journal, boundaries)
    sandboxes = MortalSandboxes(Path(config["pods"]), boundaries)
    ca, token = fixed_text(config["ca"]), fixed_text(config["token"])
    async with BrokerClient(config["broker"], ca=ca, token=token) as client:
        stop = asyncio.Event()
        world = World(mortal, MortalBroker(client, boundaries), sandboxes, sandboxes, LIMITS)
        worker = asyncio.create_task(Worker(world).run(stop))
        await operate(mortal, sandboxes, config["run"])
        stop.set()
        await worker
    await journal.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
