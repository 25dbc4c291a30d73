"""Sandboxes that are replaced, lost or silent, and a broker or API server that does not answer (R12, C57, C58)."""

from dataclasses import replace
from pathlib import Path

from tests.integration.harness_kit import Kit, call, calls, eventually, kit, template, working
from tests.integration.test_harness_control import FILES, flying, listening

from agentrun.broker.client import BrokerError, BrokerUnreachable
from agentrun.broker.wire import ModelAnswer, ModelCall, Refusal, SignAnswer, SignCall
from agentrun.core.errors import ErrorClass, Retry
from agentrun.core.events import ModelFailed, SandboxLost, StepDispatched, ToolCompleted, WorkspacePut
from agentrun.harness.ports import Broker

ONCE = template(
    calls(call("run", argv=["sh", "-c", "echo x >> count; sleep 2"])),
    calls(call("run", argv=["cat", "count"])),
    {"text": "done"},
)


async def begun(made: Kit) -> None:
    """Wait until the command has left its trace."""
    count = made.sandboxes.pods["arun-run-1-w1"].workspace / "count"
    await eventually(count.exists, "the command has begun")


async def test_a_container_restarted_in_place_is_sandbox_replaced_and_the_command_runs_once_C58(tmp_path: Path) -> None:
    async with kit(tmp_path) as made, working(made):
        run = await made.create(ONCE, FILES)
        await made.until(run, flying("tool"), "running the tool")
        await begun(made)
        server = made.sandboxes.pods["arun-run-1-w1"]
        await server.kill()
        await server.start()
        state = await made.finished(run)
        assert state.outcome is not None
        assert state.outcome.completed
        first, second = await made.events(run, ToolCompleted)
        assert (first.status, first.error_class) == ("Error", "SandboxReplaced")
        assert second.status == "Ok"
        assert b"===\nx\n\n===" in await made.blob(second.output), "the workspace is still there, the command ran once"


async def test_a_lost_sandbox_ends_the_run_and_its_waiting_call(tmp_path: Path) -> None:
    async with kit(tmp_path, operate=False) as made, working(made):
        run = await made.create(ONCE, FILES)
        await made.reconcile(run)
        await made.reconcile(run)
        await made.until(run, flying("tool"), "running the tool")
        server = made.sandboxes.pods["arun-run-1-w1"]
        await made.sandboxes.delete("arun-run-1-w1")
        await made.accept(run, SandboxLost(server.pod_uid, "NodeDead"), f"pod/{server.pod_uid}/lost")
        state = await made.finished(run)
        assert state.outcome is not None
        assert state.outcome.reason == "SandboxLost"
        assert await made.events(run, ToolCompleted) == []


async def test_an_api_server_that_is_silent_for_a_while_delays_a_result_and_changes_nothing(tmp_path: Path) -> None:
    async with kit(tmp_path) as made, working(made):
        made.sandboxes.unavailable = 4
        run = await made.create(ONCE, FILES)
        state = await made.finished(run)
        assert state.outcome is not None
        assert state.outcome.completed
        assert [done.status for done in await made.events(run, ToolCompleted)] == ["Ok", "Ok"]
        assert len(await made.events(run, WorkspacePut)) == 1


class Troubled:
    """The real broker behind trouble, one error for each of the next calls."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.models: list[BrokerError] = []
        self.signs: list[BrokerError] = []

    async def model(self, call: ModelCall) -> ModelAnswer:
        """See BrokerClient."""
        if self.models:
            raise self.models.pop(0)
        return await self._broker.model(call)

    async def sign(self, call: SignCall) -> SignAnswer:
        """See BrokerClient."""
        if self.signs:
            raise self.signs.pop(0)
        return await self._broker.sign(call)


def error(error_class: ErrorClass, retry: Retry = Retry.REPEAT, after: float | None = None) -> BrokerError:
    """A refusal."""
    return BrokerError(Refusal(error_class, "in this test", retry, after))


def unreachable() -> BrokerError:
    """Nobody there."""
    return BrokerUnreachable(Refusal(ErrorClass.TRANSIENT, "in this test", Retry.REPEAT))


async def test_waiting_for_broker_authority_or_rate_costs_time_not_attempts_C42(tmp_path: Path) -> None:
    async with listening(tmp_path) as (made, ears):
        trouble = Troubled(ears)
        made.world = replace(made.world, broker=trouble)
        trouble.models = [unreachable() for _ in range(3)] + [error(ErrorClass.AUTHORITY_UNAVAILABLE)]
        trouble.models += [error(ErrorClass.RATE_LIMITED, after=0.1) for _ in range(2)]
        trouble.signs = [unreachable(), error(ErrorClass.AUTHORITY_UNAVAILABLE)]
        async with working(made):
            run = await made.create(ONCE, FILES)
            state = await made.finished(run)
        assert state.outcome is not None
        assert state.outcome.completed, state.outcome
        failed = await made.events(run, ModelFailed)
        assert [(event.error_class, event.counts) for event in failed] == [("RateLimited", False)] * 2
        assert [done.status for done in await made.events(run, ToolCompleted)] == ["Ok", "Ok"]


async def test_transient_errors_burn_attempts_with_growing_pauses_and_an_invalid_request_none_R12(
    tmp_path: Path,
) -> None:
    async with listening(tmp_path) as (made, ears):
        trouble = Troubled(ears)
        made.world = replace(made.world, broker=trouble, chance=lambda: 0.0)
        trouble.models = [error(ErrorClass.TRANSIENT), error(ErrorClass.TRANSIENT)]
        async with working(made):
            run = await made.create(template({"text": "done"}, tools=[]))
            state = await made.finished(run)
            assert state.outcome is not None
            assert state.outcome.completed
            history = await made.history(run)
            at = [record.recorded_at for record in history if record.kind == "StepDispatched"]
            assert [attempt.attempt for attempt in await made.events(run, StepDispatched)] == [1, 2, 3]
            assert at[1] - at[0] >= 500_000
            assert at[2] - at[1] >= 1_000_000
            trouble.models = [error(ErrorClass.INVALID_REQUEST, Retry.NEVER)]
            other = await made.create(template({"text": "done"}, tools=[]), name="run-2")
            state = await made.finished(other)
            assert state.outcome is not None
            assert (state.outcome.reason, state.model.attempt if state.model else 0) == ("ModelFailed", 1)
