"""Deadlines that follow from the state (R22, C15)."""

from msgspec.structs import replace
from tests.histories import History, created

from agentrun.core.deadlines import idle_deadline, wall_clock_deadline
from agentrun.core.events import Actor, DeadlinePassed, ModeChanged, RunAdmitted, StopRequested
from agentrun.core.plan import BudgetPlan, RunPlan

ANN = Actor("ann")


def bounded(**limits: int) -> History:
    return History(created(RunPlan(budget=BudgetPlan(idle_seconds=60, **limits))))


def test_a_run_that_works_has_no_idle_deadline() -> None:
    assert idle_deadline(bounded().now) == 0
    assert idle_deadline(bounded().admit().now) == 0
    assert idle_deadline(bounded().admit().dispatch("t1").add(ModeChanged(True, 2, ANN)).now) == 0, "it drains"


def test_a_run_that_waits_for_a_person_is_given_up_after_its_idle_time() -> None:
    for history in (bounded().admit().add(ModeChanged(True, 2, ANN)), bounded(model_calls=0).admit()):
        assert idle_deadline(history.now) == history.now.at + 60_000_000
        history.add(DeadlinePassed("idle"))
        assert history.now.outcome is not None
        assert history.now.outcome.reason == "BudgetExhausted"
        assert idle_deadline(history.now) == 0


def test_resuming_ends_the_wait_and_another_pause_begins_another() -> None:
    history = bounded().admit().add(ModeChanged(True, 2, ANN))
    first = idle_deadline(history.now)
    history.add(ModeChanged(False, 3, ANN))
    assert idle_deadline(history.now) == 0
    history.add(ModeChanged(True, 4, ANN))
    assert idle_deadline(history.now) > first


def test_without_a_limit_nobody_is_given_up() -> None:
    assert idle_deadline(History(created(RunPlan())).admit().add(ModeChanged(True, 2, ANN)).now) == 0


def test_the_whole_time_is_over_once_a_stop_is_asked_for() -> None:
    history = bounded().add(RunAdmitted(wall_clock_deadline=99))
    assert wall_clock_deadline(history.now) == 99
    assert wall_clock_deadline(replace(history.now, wall_clock_deadline=0)) == 0
    history.add(StopRequested("Cancel", ANN))
    assert wall_clock_deadline(history.now) == 0
