"""Conditions: always all of them, reasons of closed lists, true words at every point (R0.3, R5, C2, C54, C71)."""

import pytest
from tests.histories import History, created
from tests.unit.controller.situations import histories, marks, stopped, verified

from agentrun.api.conditions import REASONS, ConditionType
from agentrun.controller.conditions import Mark, Seen, render, run_marks
from agentrun.core.events import ModelFailed, SandboxLost, VerificationCompleted
from agentrun.core.plan import RunPlan
from agentrun.core.state import State
from agentrun.core.visible import visible_state

T = ConditionType
# What later work will set: approvals, quotas and queues, egress through the proxy, rollbacks, grants' own conditions.
LATER: dict[ConditionType, set[str]] = {
    T.ACCEPTED: {
        "AmbiguousCredentials", "Expired", "InvalidExpression", "RequestNotFound",
        "RevisionRevoked", "RunNotFound", "Superseded", "ToolDigestRequired", "ToolNotFound",
    },
    T.ADMITTED: {"PolicyDenied", "QueueFull", "QuotaExceeded", "StartDeadlineExceeded"},
    T.SANDBOX_READY: {"PodScheduled", "EgressDown", "SandboxReplaced"},
    T.APPROVAL_REQUIRED: {"AwaitingDecision"},
    T.PAUSED: {"NoProgress"},
    T.NEEDS_RECONCILIATION: {"JournalRolledBack"},
    T.FAILED: {
        "ImagePullFailed", "NeedsInput", "NoProgress", "PolicyDenied", "QueueFull", "SandboxReplaced",
        "StartDeadlineExceeded",
    },
}  # fmt: skip


def by_type(state: State, seen: Seen | None = None) -> dict[ConditionType, Mark]:
    return {mark.type: mark for mark in run_marks(state, seen or Seen())}


def test_in_every_situation_every_condition_is_there_once() -> None:
    for found in marks():
        assert [mark.type for mark in found] == list(ConditionType)


def test_every_reason_is_produced_here_or_stands_in_the_list_of_what_is_to_come_C54() -> None:
    produced: dict[ConditionType, set[str]] = {kind: set() for kind in ConditionType}
    for found in marks():
        for mark in found:
            produced[mark.type].add(mark.reason.value)
    for kind, reasons in REASONS.items():
        later = LATER.get(kind, set())
        assert produced[kind] | later == {reason.value for reason in reasons}, kind
        assert not produced[kind] & later, f"{kind}: produced now, take it from the list of what is to come"


@pytest.mark.parametrize("completed", [True, False])
def test_finished_is_true_however_the_run_ended_C71(completed: bool) -> None:
    found = by_type(verified().add(VerificationCompleted("verify1", 1, completed, "report")).now)
    assert found[T.FINISHED].status is True
    assert (found[T.COMPLETE].status, found[T.FAILED].status) == (completed, not completed)


def test_of_complete_and_failed_never_both_and_finished_is_either() -> None:
    for found in marks():
        status = {mark.type: mark.status for mark in found}
        assert not (status[T.COMPLETE] and status[T.FAILED])
        assert status[T.FINISHED] == bool(status[T.COMPLETE] or status[T.FAILED])


def test_terminal_is_absorbing_C2() -> None:
    ended = History(created(RunPlan())).admit().dispatch("t1").reply("t1")
    before = by_type(ended.now)
    ended.add(SandboxLost("pod-1", "SandboxLost", "late"), ModelFailed("t1", 1, "Invalid", "late"))
    assert by_type(ended.now) == before


def test_quiescent_is_true_only_on_proof_C12() -> None:
    stopping = stopped("Cancel").now
    assert by_type(stopping)[T.QUIESCENT].status is False
    ended = History(created(RunPlan())).admit().dispatch("t1").reply("t1").now
    assert by_type(ended, Seen(pods_gone=False))[T.QUIESCENT].status is False
    assert by_type(ended, Seen(pods_gone=True))[T.QUIESCENT].status is True


def test_an_admitted_run_is_reconciled_so_that_hours_of_work_time_no_pipeline_out() -> None:
    for history in histories():
        if history.now.admitted_at:
            assert by_type(history.now)[T.RECONCILING].status is False


def test_a_state_that_waits_for_a_person_says_so() -> None:
    for history in histories():
        found, state = by_type(history.now), visible_state(history.now).value
        assert (found[T.PAUSED].status is True) == (state == "paused" and not history.now.flying)
        assert (found[T.NEEDS_RECONCILIATION].status is True) == bool(history.now.unresolved)
        assert (found[T.CANCEL_ACKNOWLEDGED].status is True) == (history.now.stop is not None)


def test_times_move_only_when_the_status_does() -> None:
    first = render(run_marks(History().now, Seen()), 1, [], "2026-01-01T00:00:00Z")
    later = render(run_marks(History().admit().now, Seen()), 2, first, "2026-01-02T00:00:00Z")
    moved = {one["type"] for one in later if one["lastTransitionTime"] == "2026-01-02T00:00:00Z"}
    changed = {one["type"] for one, was in zip(later, first, strict=True) if one["status"] != was["status"]}
    assert moved == changed == {"Admitted", "Reconciling"}
    assert {one["observedGeneration"] for one in later} == {2}
