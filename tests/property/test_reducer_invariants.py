"""Invariants of the reducer under any order of events, duplicates and late ones included (R2, R3, R5)."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests.histories import BLOB, PAY, READ, WRITE, History, created, dispatched, replied

from agentrun.core import chain
from agentrun.core.events import (
    Actor,
    DeadlinePassed,
    EventRecord,
    LeaseTaken,
    ModeChanged,
    ModelFailed,
    NewEvent,
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
    ToolCompleted,
    VerificationCompleted,
    WorkspaceGot,
    WorkspacePut,
)
from agentrun.core.ledger import LIMITED
from agentrun.core.plan import BudgetPlan, RunPlan, VerificationPlan
from agentrun.core.reducer import commands, reduce
from agentrun.core.state import State, decode_state, encode_state
from agentrun.core.visible import RunState, visible_reason, visible_state

ACTOR = Actor("ann")
TOOLS = st.lists(st.sampled_from(["read", "write", "pay", "no-such-tool"]), max_size=3)
RARELY = st.integers(0, 11)  # what ends a run early, one time in twelve
PODS = st.sampled_from(["pod-1", "pod-2"])
PROPOSALS = st.sampled_from([["read"], ["read", "read"], ["write", "read"], ["pay"], ["read", "no-such-tool"], []])
STATUS = st.sampled_from(["Ok", "Error", "Unknown"])
PLANS = st.builds(
    RunPlan,
    tools=st.sampled_from([(READ, WRITE, PAY), (READ, WRITE), (READ,), ()]),
    budget=st.builds(
        BudgetPlan,
        model_calls=st.sampled_from([None, None, 12, 3, 1, 0]),
        tool_calls=st.sampled_from([None, None, 12, 2, 0]),
        output_tokens=st.sampled_from([None, None, 20_000, 5_000]),
        mutations=st.sampled_from([None, None, 2, 0]),
    ),
    verification=st.none() | st.just(VerificationPlan(60)),
    workspace=st.booleans(),
)


REACHED: set[RunState] = set()


class AnyOrder(RuleBasedStateMachine):
    """Throws every kind of event at a run in any order; the reducer has an answer for each."""

    @initialize(plan=PLANS, admitted=st.booleans())
    def create(self, plan: RunPlan, admitted: bool) -> None:
        self.history = History(created(plan))
        self.outcomes: list[object] = []
        self.before: State = self.history.now
        if admitted:
            self.history.admit().started()

    def _add(self, *events: object, fence: int | None = None) -> None:
        self.before = self.history.now
        for event in events:
            self.history.add(event, fence=fence)  # type: ignore[arg-type]
            REACHED.add(visible_state(self.history.now))

    def _steps(self) -> list[tuple[str, int]]:
        return [(step.id, step.attempt) for step in self.history.now.steps] or [("t1", 1)]

    @rule()
    def admit(self) -> None:
        self.history.admit()

    @precondition(lambda self: self.history.now.steps)
    @rule(data=st.data(), late=st.booleans())
    def dispatch(self, data: st.DataObject, late: bool) -> None:
        step, attempt = data.draw(st.sampled_from(self._steps()))
        self._add(dispatched(step, attempt - 1 if late else attempt), fence=self.history.fence)

    @rule(data=st.data(), tools=TOOLS, finish=st.sampled_from(["", "", "", "Length", "ContentFilter"]))
    def model_answers(self, data: st.DataObject, tools: list[str], finish: str) -> None:
        step, attempt = data.draw(st.sampled_from(self._steps()))
        self._add(replied(step, tools, finish, attempt))

    @rule(data=st.data(), again=st.booleans(), counts=st.booleans(), rarely=RARELY)
    def model_fails(self, data: st.DataObject, again: bool, counts: bool, rarely: int) -> None:
        if rarely:
            return
        step, attempt = data.draw(st.sampled_from(self._steps()))
        at = self.history.now.at + 1 if again else 0
        self._add(ModelFailed(step, attempt, "Transient", "x", next_attempt_at=at, counts=counts))

    @rule(data=st.data(), status=st.sampled_from(["Ok", "Error", "Refused", "Unknown"]), size=st.integers(0, 10**7))
    def tool_answers(self, data: st.DataObject, status: str, size: int) -> None:
        step, attempt = data.draw(st.sampled_from(self._steps()))
        self._add(ToolCompleted(step, attempt, status, BLOB, output_bytes=size))

    @rule(
        data=st.data(),
        kind=st.sampled_from(["put", "got", "verified", "refuted", "failed", "over", "abandoned"]),
        rarely=RARELY,
    )
    def other_answers(self, data: st.DataObject, kind: str, rarely: int) -> None:
        if rarely:
            return
        step, attempt = data.draw(st.sampled_from(self._steps()))
        answers = {
            "put": WorkspacePut(step, attempt, "pod-1"),
            "got": WorkspaceGot(step, attempt, BLOB),
            "verified": VerificationCompleted(step, attempt, passed=True, summary="ok"),
            "refuted": VerificationCompleted(step, attempt, passed=False, summary="no"),
            "failed": StepFailed(step, attempt, "Timeout", "x", next_attempt_at=self.history.now.at + 1),
            "over": StepFailed(step, attempt, "Timeout", "x"),
            "abandoned": StepAbandoned(step, attempt, "x"),
        }
        self._add(answers[kind])

    @rule(uid=PODS, purpose=st.sampled_from(["work", "verify"]), container=st.sampled_from(["c1", "c2"]))
    def sandbox_starts(self, uid: str, purpose: str, container: str) -> None:
        self.history.started(purpose, uid, container)

    @rule(uid=PODS, kind=st.sampled_from(["lost", "gone", "refused"]), rarely=RARELY)
    def sandbox_ends(self, uid: str, kind: str, rarely: int) -> None:
        if rarely:
            return
        ends = {
            "lost": SandboxLost(uid, "NodeDead"),
            "gone": SandboxGone(uid),
            "refused": SandboxRefused(uid, "EgressNotEnforced"),
        }
        self._add(ends[kind])

    @rule(paused=st.booleans(), generation=st.integers(1, 5))
    def mode(self, paused: bool, generation: int) -> None:
        self._add(ModeChanged(paused, generation, ACTOR))

    @rule(mode=st.sampled_from(["Cancel", "Kill"]), rarely=RARELY)
    def stop(self, mode: str, rarely: int) -> None:
        if not rarely:
            self._add(StopRequested(mode, ACTOR))

    @rule(
        event=st.sampled_from(
            [
                RunDeleted(),
                RunRefused("UnsupportedFeature", "no"),
                Quiesced(),
                DeadlinePassed("wallClock"),
                DeadlinePassed("idle"),
            ]
        ),
        rarely=RARELY,
    )
    def operator_fact(self, event: object, rarely: int) -> None:
        if not rarely:
            self._add(event)

    @rule(number=st.integers(1, 9), when=st.sampled_from(["NextModelCall", "AfterCurrentWork"]))
    def steer(self, number: int, when: str) -> None:
        self._add(SteeringAdded(f"s{number}", BLOB, when, ACTOR))

    @rule()
    def takeover(self) -> None:
        self.history.fence += 1
        self._add(LeaseTaken("other"), fence=self.history.fence)

    @rule(tools=st.lists(PROPOSALS, min_size=1, max_size=10), data=st.data(), status=STATUS)
    def go_on(self, tools: list[list[str]], data: st.DataObject, status: str) -> None:
        """Do what the run wants next, as a healthy harness would: reaches deep states."""
        for proposal in tools:
            due = commands(self.history.now)
            if due:
                self._one_step(data.draw(st.sampled_from(due)).step, proposal, status)

    @rule()
    def run_to_the_end(self) -> None:
        """The model proposes nothing more; sandbox, workspace and verification follow."""
        for _ in range(12):
            due = commands(self.history.now)
            if not due:
                return
            self.history.started("verify", "pod-v")
            self._one_step(due[0].step, [], "Ok")

    @precondition(lambda self: self.history.now.model is not None and PAY in self.history.now.plan.tools)
    @rule()
    def a_payment_loses_its_owner(self) -> None:
        """An unkeyed effect in flight when the run changes hands, if the run lets it come to that."""
        model = self.history.now.model
        assert model is not None
        call = f"{model.id}c0"
        self._add(
            dispatched(model.id, model.attempt), replied(model.id, ["pay"], attempt=model.attempt), dispatched(call)
        )
        self.takeover()

    def _one_step(self, step_id: str, proposal: list[str], status: str) -> None:
        step = self.history.now.step(step_id)
        assert step is not None
        if not step.flying:
            self._add(dispatched(step.id, step.attempt))
            return
        answers = {
            "model": replied(step.id, proposal, attempt=step.attempt),
            "tool": ToolCompleted(step.id, step.attempt, status, BLOB, output_bytes=5),
            "put": WorkspacePut(step.id, step.attempt, "pod-1"),
            "get": WorkspaceGot(step.id, step.attempt, BLOB),
            "verify": VerificationCompleted(step.id, step.attempt, passed=True, summary="ok"),
        }
        self._add(answers[step.kind])

    # --- what must hold after every event --------------------------------------------------------------------------

    @invariant()
    def terminal_is_absorbing_and_wants_nothing_R3_1(self) -> None:
        state = self.history.now
        if state.terminal:
            assert commands(state) == ()
            self.outcomes.append(state.outcome)
        assert all(outcome == state.outcome for outcome in self.outcomes)

    @invariant()
    def a_finish_is_never_both_terminal_and_unresolved_R5(self) -> None:
        assert not (self.history.now.terminal and self.history.now.unresolved)

    @invariant()
    def budget_is_never_passed_R3_3(self) -> None:
        ledger, budget = self.history.now.ledger, self.history.now.plan.budget
        for name in LIMITED:
            limit = getattr(budget, name)
            used, reserved = getattr(ledger.used, name), getattr(ledger.reserved, name)
            assert used >= 0
            assert reserved >= 0
            assert limit is None or used + reserved <= limit
        flying = {step.id for step in self.history.now.flying}
        assert set(ledger.holds) <= flying

    @invariant()
    def paused_or_stopping_begins_nothing_R9(self) -> None:
        state = self.history.now
        if state.paused or state.stop or state.unresolved:
            assert {command.step for command in commands(state)} <= {step.id for step in state.flying}

    @invariant()
    def the_state_is_visible_and_total_R5(self) -> None:
        REACHED.add(visible_state(self.history.now))
        assert isinstance(visible_reason(self.history.now), str)

    @invariant()
    def repeating_the_last_answer_advances_nothing_R3_4(self) -> None:
        last = self.history.records[-1]
        if last.kind not in (
            "ToolCompleted",
            "ModelCompleted",
            "WorkspacePut",
            "WorkspaceGot",
            "VerificationCompleted",
        ):
            return
        state = self.history.now
        again = reduce(state, chain.link(_again(last), run=last.run, seq=last.seq + 1, fence=last.fence,
                                         recorded_at=last.recorded_at, prev_hash=last.hash)).state  # fmt: skip
        assert again.evidence == state.evidence + 1
        assert encode_state(_unplaced(again, state)) == encode_state(state)

    @invariant()
    def the_same_history_gives_the_same_state_R2(self) -> None:
        state: State | None = None
        for record in self.history.records:
            state = reduce(state, record).state
        assert state is not None
        assert encode_state(state) == encode_state(self.history.now)
        assert decode_state(encode_state(state)) == self.history.now

    @invariant()
    def every_open_call_is_closed_before_the_next_turn(self) -> None:
        state = self.history.now
        for call in state.calls:
            assert call.step.id.startswith(f"t{state.turn}c")


def _again(record: EventRecord) -> NewEvent:
    return NewEvent(record.kind, record.kind_version, record.body)


def _unplaced(state: State, like: State) -> State:
    return replace(state, seq=like.seq, at=like.at, evidence=like.evidence)


class TestAnyOrder(AnyOrder.TestCase):  # type: ignore[misc, name-defined]
    """The same 6,000 steps every time; `make test-long` draws new ones."""

    settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)


@pytest.mark.long
class TestAnyOrderAtLength(AnyOrder.TestCase):  # type: ignore[misc, name-defined]
    """100,000 steps, new ones each time."""

    settings = settings(max_examples=2_000, stateful_step_count=50, deadline=None)


def test_the_machine_reaches_every_state_of_this_version_R5() -> None:
    """Guards the guard: invariants that hold only over shallow states would prove little."""
    assert set(RunState) - REACHED == {RunState.WAITING_APPROVAL}
