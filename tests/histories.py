"""Builders of histories for tests: a run driven event by event through the real reducer and the real chain."""

from collections.abc import Iterable

from agentrun.core import chain
from agentrun.core.events import (
    Actor,
    Event,
    EventRecord,
    ModelCompleted,
    ProposedCall,
    RunAdmitted,
    RunCreated,
    SandboxStarted,
    StepDispatched,
    ToolCompleted,
    Usage,
    encode,
)
from agentrun.core.ids import Tenant
from agentrun.core.plan import BudgetPlan, RunPlan, ToolPlan, VerificationPlan
from agentrun.core.reducer import Reduction, reduce
from agentrun.core.state import State

TENANT = Tenant("c1", "ns-uid-1")
RUN = "0b0c7c5e-0000-4000-8000-000000000001"
START = 1_700_000_000_000_000
READ = ToolPlan("read", "sha256:" + "1" * 64, "Builtin", "ReadOnly", "Repeat", builtin="Read")
WRITE = ToolPlan("write", "sha256:" + "2" * 64, "Builtin", "Workspace", builtin="Write")
PAY = ToolPlan("pay", "sha256:" + "3" * 64, "HTTP", "External", "Reconcile")
BLOB = "sha256:" + "a" * 64


def created(plan: RunPlan | None = None, **changes: object) -> RunCreated:
    """The first event of a small run."""
    plan = plan or RunPlan(tools=(READ, WRITE), budget=BudgetPlan(model_calls=10, tool_calls=20))
    values: dict[str, object] = {
        "tenant": TENANT, "namespace": "team-a", "name": "run-1", "uid": RUN, "definition": "fixer",
        "template_digest": "sha256:" + "d" * 64, "input_digest": "sha256:" + "e" * 64,
        "requester": Actor("ann", "u-1"), "plan": plan,
    }  # fmt: skip
    return RunCreated(**{**values, **changes})  # type: ignore[arg-type]


class History:
    """A run's records and state; time moves one second per event."""

    def __init__(self, first: RunCreated | None = None) -> None:
        self.records: list[EventRecord] = []
        self.state: State | None = None
        self.fence = 1
        self.last: Reduction | None = None
        self.add(first or created())

    @property
    def now(self) -> State:
        """The current state."""
        assert self.state is not None
        return self.state

    def add(self, *events: Event, source_key: str | None = None, fence: int | None = None) -> "History":
        """Append events as the journal would chain them."""
        for event in events:
            seq = len(self.records) + 1
            record = chain.link(
                encode(event, source_key), run=RUN, seq=seq, fence=self.fence if fence is None else fence,
                recorded_at=START + seq * 1_000_000, prev_hash=self.records[-1].hash if self.records else chain.GENESIS,
            )  # fmt: skip
            self.last = reduce(self.state, record)
            self.state = self.last.state
            self.records.append(record)
        return self

    def admit(self) -> "History":
        """Admission."""
        return self.add(RunAdmitted())

    def started(self, purpose: str = "work", uid: str = "pod-1", container: str = "c1") -> "History":
        """A sandbox runs."""
        return self.add(SandboxStarted(purpose, f"arun-{uid}", uid, "10.0.0.9", container))

    def dispatch(self, step: str, attempt: int = 1, fence: int | None = None) -> "History":
        """A step's first byte may leave."""
        return self.add(dispatched(step, attempt), fence=fence)

    def reply(self, step: str, *tools: str, finish: str = "", attempt: int = 1, text: str = "done") -> "History":
        """A model's whole reply that proposes calls of these tools."""
        return self.add(replied(step, tools, finish, attempt, text))

    def answer(self, step: str, status: str = "Ok", attempt: int = 1) -> "History":
        """A tool's answer."""
        return self.add(ToolCompleted(step, attempt, status, BLOB, output_bytes=10))


def dispatched(step: str, attempt: int = 1) -> StepDispatched:
    """A dispatch with everything R3 (2) asks for."""
    return StepDispatched(step, attempt, "ar1-key", BLOB, "ann", "scope", START + 10**9)


def replied(
    step: str, tools: Iterable[str] = (), finish: str = "", attempt: int = 1, text: str = "done"
) -> ModelCompleted:
    """A model's reply."""
    calls = tuple(ProposedCall(f"{step}c{index}", tool, BLOB) for index, tool in enumerate(tools))
    finish = finish or ("ToolCalls" if calls else "Stop")
    summary = "" if calls else text
    return ModelCompleted(step, attempt, BLOB, finish, Usage(100, 0, 50), 7, calls, summary)


VERIFIED_PLAN = RunPlan(tools=(READ, WRITE), verification=VerificationPlan(60), workspace=True)
