"""Reducer version 1, told as histories (R2, R3, R5, R9, R12)."""

import pytest
from tests.histories import BLOB, PAY, READ, START, VERIFIED_PLAN, WRITE, History, created

from agentrun.core.events import (
    Actor,
    DeadlinePassed,
    Event,
    LeaseTaken,
    ModeChanged,
    ModelFailed,
    Quiesced,
    RunDeleted,
    RunRefused,
    SandboxGone,
    SandboxLost,
    SandboxRefused,
    SteeringAdded,
    StepAbandoned,
    StepFailed,
    StopRequested,
    VerificationCompleted,
    WorkspaceGot,
    WorkspacePut,
)
from agentrun.core.needs import wants_verify_pod, wants_work_pod
from agentrun.core.plan import BudgetPlan, RunPlan
from agentrun.core.reducer import commands
from agentrun.core.visible import visible_reason, visible_state

ANN = Actor("ann")


def ids(history: History) -> list[str]:
    """Ids of what the run wants now."""
    return [command.id for command in commands(history.now)]


def with_tool_in_flight(tool: str = "write") -> History:
    """A run whose first call is in flight."""
    plan = RunPlan(tools=(READ, WRITE, PAY))
    return History(created(plan)).admit().started().dispatch("t1").reply("t1", tool).dispatch("t1c0")


def test_a_run_without_tools_goes_from_created_to_completed_R5() -> None:
    history = History(created(RunPlan()))
    seen = [visible_state(history.now).value]
    for act in (history.admit, lambda: history.dispatch("t1"), lambda: history.reply("t1", text="hello")):
        act()
        seen.append(visible_state(history.now).value)
    assert seen == ["created", "ready", "waiting_model", "completed"]
    assert history.now.final == "hello"


def test_a_verified_run_passes_put_get_and_a_fresh_pod() -> None:
    history = History(created(VERIFIED_PLAN)).admit()
    assert wants_work_pod(history.now)
    history.started().dispatch("put1").add(WorkspacePut("put1", 1, "pod-1"))
    history.dispatch("t1").reply("t1", "read").dispatch("t1c0").answer("t1c0").dispatch("t2").reply("t2")
    assert ids(history) == ["get1#1"]
    history.dispatch("get1").add(WorkspaceGot("get1", 1, BLOB))
    assert not wants_work_pod(history.now)
    assert wants_verify_pod(history.now) == 1
    assert ids(history) == []
    history.started("verify", "pod-v").dispatch("verify1")
    assert visible_state(history.now) == "running"
    history.add(VerificationCompleted("verify1", 1, passed=True, summary="3 passed"))
    assert visible_state(history.now) == "completed"
    assert wants_verify_pod(history.now) is None


def test_a_verification_that_fails_fails_the_run_whatever_the_model_said_R24() -> None:
    history = History(created(VERIFIED_PLAN)).admit().started().dispatch("put1").add(WorkspacePut("put1", 1, "p"))
    history.dispatch("t1").reply("t1").dispatch("get1").add(WorkspaceGot("get1", 1, BLOB)).started("verify", "v")
    history.dispatch("verify1").add(VerificationCompleted("verify1", 1, passed=False, summary="1 failed"))
    assert history.now.outcome is not None
    assert (history.now.outcome.reason, history.now.outcome.message) == ("VerificationFailed", "1 failed")


def test_calls_wait_for_the_sandbox_and_readers_go_side_by_side() -> None:
    history = History().admit().dispatch("t1").reply("t1", "read", "read", "write", "read")
    assert ids(history) == []
    assert visible_state(history.now) == "running"
    history.started()
    assert ids(history) == ["t1c0#1", "t1c1#1"]
    history.dispatch("t1c0").dispatch("t1c1").answer("t1c0").answer("t1c1")
    assert ids(history) == ["t1c2#1"]
    history.dispatch("t1c2").answer("t1c2", "Error")
    assert ids(history) == ["t1c3#1"]


def test_an_unknown_tool_is_answered_without_dispatch_C45() -> None:
    history = History().admit().started().dispatch("t1").reply("t1", "rm")
    assert ids(history) == ["t2#1"]


@pytest.mark.parametrize(("tool", "again"), [("read", True), ("write", True), ("pay", False)])
def test_a_call_that_lost_its_owner_is_repeated_only_where_that_is_safe_R12(tool: str, again: bool) -> None:
    history = with_tool_in_flight(tool)
    history.fence = 2
    history.add(LeaseTaken("other"))
    assert (ids(history) == ["t1c0#2"]) is again
    assert (visible_state(history.now) == "needs_reconciliation") is not again


def test_the_late_answer_of_the_lost_owner_is_evidence_R3_4() -> None:
    history = with_tool_in_flight()
    history.fence = 2
    history.add(LeaseTaken("other")).dispatch("t1c0", attempt=2)
    before = history.now
    history.answer("t1c0", attempt=1)
    assert history.now.evidence == before.evidence + 1
    assert history.now.calls == before.calls


def test_a_takeover_by_the_same_fence_disturbs_nothing() -> None:
    history = with_tool_in_flight()
    history.add(LeaseTaken("me"))
    assert [step.id for step in history.now.flying] == ["t1c0"]


def test_pause_lets_the_live_call_finish_and_begins_nothing_R9() -> None:
    history = with_tool_in_flight().add(ModeChanged(paused=True, generation=2, actor=ANN))
    assert (visible_state(history.now), visible_reason(history.now)) == ("paused", "Draining")
    history.answer("t1c0")
    assert ids(history) == []
    assert visible_reason(history.now) == "PausedByUser"
    history.add(ModeChanged(paused=False, generation=3, actor=ANN))
    assert ids(history) == ["t2#1"]


def test_the_last_generation_wins_C14() -> None:
    history = (
        with_tool_in_flight()
        .add(ModeChanged(paused=False, generation=5, actor=ANN))
        .add(ModeChanged(paused=True, generation=4, actor=ANN))
    )
    assert not history.now.paused


def test_cancel_is_acknowledged_at_once_and_ends_only_after_quiescence_C12() -> None:
    history = with_tool_in_flight().add(StopRequested("Cancel", ANN, "enough"))
    assert history.now.milestones.acknowledged == history.now.milestones.requested > 0
    assert visible_state(history.now) == "cancelling"
    history.add(Quiesced())
    assert visible_state(history.now) == "cancelling", "a call is still in flight: no proof"
    history.add(StepAbandoned("t1c0", 1, "cancelled")).add(SandboxGone("pod-1"))
    assert visible_state(history.now) == "cancelling"
    history.add(Quiesced())
    outcome = history.now.outcome
    assert outcome is not None
    assert (outcome.reason, outcome.message) == ("Cancelled", "Cancelled by ann: enough")
    assert history.now.milestones.quiescent > history.now.milestones.acknowledged


def test_kill_follows_cancel_and_never_goes_back_R9() -> None:
    history = with_tool_in_flight().add(StopRequested("Cancel", ANN)).add(StopRequested("Kill", ANN))
    history.add(StopRequested("Cancel", ANN))
    assert history.now.stop is not None
    assert history.now.stop.mode == "Kill"


def test_a_cancelled_run_with_an_unknown_effect_stays_visible_R5() -> None:
    history = with_tool_in_flight("pay").add(StopRequested("Cancel", ANN)).add(StepAbandoned("t1c0", 1, "cut"))
    history.add(Quiesced())
    assert visible_state(history.now) == "needs_reconciliation"
    assert history.now.milestones.quiescent


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([RunDeleted(), StepAbandoned("t1c0", 1, "x"), Quiesced()], "Cancelled"),
        ([DeadlinePassed("wallClock"), StepAbandoned("t1c0", 1, "x"), Quiesced()], "BudgetExhausted"),
        ([SandboxLost("pod-1", "NodeDead")], "SandboxLost"),
        ([SandboxRefused("pod-1", "EgressNotEnforced", "open: 10.0.0.1:10250")], "EgressNotEnforced"),
    ],
)
def test_each_bad_end_has_its_reason(events: list[Event], reason: str) -> None:
    history = with_tool_in_flight().add(*events)
    assert history.now.outcome is not None
    assert history.now.outcome.reason == reason


def test_terminal_is_absorbing_C2() -> None:
    history = History(created(RunPlan(tools=(READ,)))).admit().started().dispatch("t1").reply("t1")
    history.dispatch("get1").add(WorkspaceGot("get1", 1, BLOB))
    outcome = history.now.outcome
    assert outcome is not None
    assert outcome.completed
    history.add(SandboxLost("pod-1", "Deleted"), StopRequested("Kill", ANN), RunDeleted())
    assert history.now.outcome == outcome
    assert history.now.evidence == 3


def test_a_reply_cut_at_the_cap_dispatches_nothing_and_is_bounded_C39() -> None:
    history = History().admit().started()
    for turn in (1, 2):
        history.dispatch(f"t{turn}").reply(f"t{turn}", "write", finish="Length")
        assert ids(history) == [f"t{turn + 1}#1"]
    history.dispatch("t3").reply("t3", finish="Length")
    assert history.now.outcome is not None
    assert history.now.outcome.reason == "OutputTruncated"


def test_model_failures_back_off_and_are_bounded_while_rate_limits_cost_no_attempt_C42() -> None:
    history = History(created(RunPlan(model_attempts=2))).admit()
    for attempt in (1, 2, 3):
        history.dispatch("t1", attempt)
        history.add(ModelFailed("t1", attempt, "RateLimited", "x", next_attempt_at=START * 2, counts=False))
        assert visible_state(history.now) == "running"
    for attempt in (4, 5):
        history.dispatch("t1", attempt)
        history.add(ModelFailed("t1", attempt, "Transient", "x", next_attempt_at=START * 2))
    assert history.now.outcome is not None
    assert history.now.outcome.reason == "ModelFailed"


def test_a_budget_that_is_gone_pauses_the_run_R22() -> None:
    plan = RunPlan(tools=(READ,), budget=BudgetPlan(model_calls=1))
    history = (
        History(created(plan)).admit().started().dispatch("t1").reply("t1", "read").dispatch("t1c0").answer("t1c0")
    )
    assert (visible_state(history.now), visible_reason(history.now)) == ("paused", "BudgetExhausted")
    assert ids(history) == []
    history.add(DeadlinePassed("idle"))
    assert history.now.outcome is not None
    assert "model_calls" in history.now.outcome.message


def test_unknown_usage_costs_the_whole_reservation_R22() -> None:
    plan = RunPlan(budget=BudgetPlan(output_tokens=10_000), max_output_tokens=4_000)
    history = History(created(plan)).admit().dispatch("t1")
    history.add(StepAbandoned("t1", 1, "worker died"))
    assert history.now.ledger.used.output_tokens == 4_000
    assert history.now.ledger.reserved.output_tokens == 0


@pytest.mark.parametrize(("when", "delivered"), [("NextModelCall", 2), ("AfterCurrentWork", 3)])
def test_steering_lands_where_its_contract_says_R9(when: str, delivered: int) -> None:
    history = with_tool_in_flight().add(SteeringAdded("s1", BLOB, when, ANN)).answer("t1c0").dispatch("t2").reply("t2")
    if delivered == 3:
        assert ids(history) == ["t3#1"], "the last word waits for the message"
    assert [steer.turn for steer in history.now.steering] == [delivered]


def test_a_lost_verification_pod_is_replaced_a_bounded_number_of_times() -> None:
    history = History(created(VERIFIED_PLAN)).admit().started().dispatch("put1").add(WorkspacePut("put1", 1, "p"))
    history.dispatch("t1").reply("t1").dispatch("get1").add(WorkspaceGot("get1", 1, BLOB))
    for number in (1, 2, 3):
        assert wants_verify_pod(history.now) == number
        history.started("verify", f"v{number}").add(SandboxLost(f"v{number}", "Evicted"))
    assert history.now.outcome is not None
    assert history.now.outcome.reason == "SandboxLost"


def test_a_step_that_fails_for_good_names_itself() -> None:
    history = History(created(VERIFIED_PLAN)).admit().started().dispatch("put1")
    history.add(StepFailed("put1", 1, "Timeout", "no answer", next_attempt_at=START))
    assert ids(history) == ["put1#2", "t1#1"]
    history.dispatch("put1", 2).add(StepFailed("put1", 2, "Timeout", "no answer"))
    assert history.now.outcome is not None
    assert history.now.outcome.message == "put1: Timeout: no answer"


def test_a_refused_run_ends_before_it_starts_and_a_late_refusal_changes_nothing() -> None:
    refused = History(created(RunPlan()))
    refused.add(RunRefused("UnsupportedFeature", "forks are not available"), source_key="refused")
    assert (visible_state(refused.now).value, visible_reason(refused.now)) == ("failed", "UnsupportedFeature")
    refused.admit()
    assert not commands(refused.now)
    admitted = History(created(RunPlan())).admit()
    admitted.add(RunRefused("UnsupportedFeature", "too late"), source_key="refused")
    assert admitted.now.outcome is None
