"""Runs in every situation this version can show, as marks (C54)."""

from collections.abc import Iterator
from typing import Any

from tests.histories import BLOB, PAY, VERIFIED_PLAN, History, created
from tests.unit.controller.objects import agent_class, definition, revision, run
from tests.unit.controller.pods import NOW, pod

from agentrun.api.conditions import AcceptedReason, SandboxReadyReason
from agentrun.controller.conditions import Mark, Seen, replayed_marks, run_marks, stopped_marks, waiting_marks
from agentrun.controller.intake import Intake, Waiting, judge
from agentrun.controller.pod_view import look
from agentrun.core.events import (
    Actor,
    DeadlinePassed,
    LeaseTaken,
    ModeChanged,
    ModelFailed,
    Quiesced,
    RunRefused,
    SandboxLost,
    SandboxRefused,
    StepAbandoned,
    StepFailed,
    StopRequested,
    VerificationCompleted,
    WorkspaceGot,
    WorkspacePut,
)
from agentrun.core.plan import BudgetPlan, RunPlan

Object = dict[str, Any]
ANN = Actor("ann")
FIXER = definition()
PINNED = run(definitionRef={"name": "fixer", "revision": "fixer-0123456789"})


def _judged(run_of: Object, of: Object | None, *, has_class: bool = True, frozen: bool = True) -> Intake | Waiting:
    return judge(run_of, of, agent_class() if has_class else None, revision(of) if of and frozen else None)


def _waiting() -> Iterator[Waiting]:
    """Each as the judgement itself says it; a file that is missing is said by `freeze` (test_inputs.py)."""
    found = (
        _judged(run(), FIXER, frozen=False),
        _judged(run(), None),
        _judged(run(), FIXER, has_class=False),
        _judged(run(), definition(modelName="other")),
        _judged(run(), definition(modelParameters={"seed": 2**60}), frozen=False),
        _judged(PINNED, FIXER, frozen=False),
        _judged(run(attribution=None), FIXER),
        Waiting(AcceptedReason.INPUT_NOT_FOUND, "no file"),
    )
    for one in found:
        assert isinstance(one, Waiting)
        yield one


WAITING = tuple(_waiting())


def _refused() -> Iterator[RunRefused]:
    """As judged; an input that can never be used is said by `freeze` (test_inputs.py)."""
    for asked in (run(input={"git": {"url": "https://git.test/x", "ref": "main"}}), run(dedupeKey="x")):
        found = _judged(asked, FIXER)
        assert isinstance(found, Intake)
        assert found.refusal is not None
        yield RunRefused(found.refusal.reason.value, found.refusal.message)
    yield RunRefused(AcceptedReason.INVALID_INPUT.value, "no")


def pay() -> History:
    """An unkeyed effect in flight."""
    return History(created(RunPlan(tools=(PAY,)))).admit().dispatch("t1").reply("t1", "pay").dispatch("t1c0")


def verified() -> History:
    """Up to the verdict."""
    history = History(created(VERIFIED_PLAN, workspace=BLOB)).admit().started()
    history.dispatch("put1").add(WorkspacePut("put1", 1, "pod-1"))
    history.dispatch("t1").reply("t1").dispatch("get1").add(WorkspaceGot("get1", 1, BLOB))
    return history.started("verify", "pod-2").dispatch("verify1")


def stopped(mode: str) -> History:
    """Asked to stop while a call is in flight."""
    history = History().admit().started().dispatch("t1").reply("t1", "write").dispatch("t1c0")
    return history.add(StopRequested(mode, ANN))


def histories() -> Iterator[History]:
    """Every road through the reducer that ends in another word."""
    plain = RunPlan()
    yield History(created(plain))
    yield History(created(plain)).add(StopRequested("Cancel", ANN))
    for refused in _refused():
        yield History(created(plain)).add(refused)
    yield History(created(plain)).admit().dispatch("t1")
    yield History(created(plain)).admit().dispatch("t1").reply("t1", finish="Stop")
    yield verified().add(VerificationCompleted("verify1", 1, True, "3 passed"))
    yield verified().add(VerificationCompleted("verify1", 1, False, "1 failed"))
    yield History(created(plain)).admit().dispatch("t1").add(ModeChanged(True, 2, ANN))
    yield History(created(plain)).admit().add(ModeChanged(True, 2, ANN))
    gone = History(created(RunPlan(budget=BudgetPlan(model_calls=0)))).admit()
    yield gone
    yield History(created(RunPlan(budget=BudgetPlan(model_calls=0)))).admit().add(DeadlinePassed("idle"))
    yield pay().add(ModeChanged(False, 1, ANN))
    lost = pay()
    lost.fence = 2
    yield lost.add(LeaseTaken("another"))
    yield stopped("Cancel")
    for mode in ("Cancel", "Kill"):
        ended = stopped(mode).add(StepAbandoned("t1c0", 1, "cancelled"))
        yield ended.add(Quiesced())
    yield History(created(plain)).admit().dispatch("t1").add(ModelFailed("t1", 1, "Invalid", "no such model"))
    truncated = History(created(plain)).admit()
    for turn in range(1, 9):
        if truncated.now.terminal:
            break
        truncated.dispatch(f"t{turn}").reply(f"t{turn}", finish="Length")
    yield truncated
    broken = History(created(VERIFIED_PLAN, workspace=BLOB)).admit().started().dispatch("put1")
    yield broken.add(StepFailed("put1", 1, "TooLarge", "no room"))
    for reason in ("EgressNotEnforced", "PodMutated"):
        yield History().admit().add(SandboxRefused("pod-1", reason, "no"))
    yield History().admit().started().add(SandboxLost("pod-1", "SandboxLost", "node died"))


def sandboxes() -> Iterator[Seen]:
    """What can be seen of a sandbox that a run wants."""
    yield Seen()
    for reason in (SandboxReadyReason.QUOTA_EXCEEDED, SandboxReadyReason.POLICY_DENIED, SandboxReadyReason.PENDING):
        yield Seen(trouble=(reason, "because"))
    for phase in ("unscheduled", "unschedulable", "pulling", "unpullable", "starting", "running", "going"):
        yield Seen(look(pod(phase), NOW), pods_gone=False)


def marks() -> Iterator[list[Mark]]:
    """Everything, in every situation."""
    for waiting in WAITING:
        yield waiting_marks(waiting)
        for mode in ("Cancel", "Kill"):
            yield stopped_marks(waiting, mode, "enough")
    for completed in (True, False):
        yield replayed_marks("Verified", completed=completed)
    for history in histories():
        yield run_marks(history.now, Seen())
        yield run_marks(history.now, Seen(pods_gone=False))
    for seen in sandboxes():
        yield run_marks(History().admit().now, seen)
