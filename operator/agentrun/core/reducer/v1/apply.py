"""`apply`: one event, one next state; total over every event in every state (R2)."""

from msgspec.structs import replace

from agentrun.core.errors import CorruptHistory
from agentrun.core.events import (
    ControlFact,
    DispatchResult,
    Event,
    EventRecord,
    RunCreated,
    SandboxFact,
    decode,
)
from agentrun.core.reducer.v1.change import evidence
from agentrun.core.reducer.v1.control import apply_control
from agentrun.core.reducer.v1.dispatch import apply_dispatch
from agentrun.core.reducer.v1.progress import advance
from agentrun.core.reducer.v1.sandbox import apply_sandbox
from agentrun.core.reducer.v1.work import apply_work
from agentrun.core.state import State


def apply(state: State | None, record: EventRecord) -> State:
    """The state after the event. Terminal is absorbing: what comes later is evidence (R3.1, C2)."""
    event = decode(record)
    if state is None:
        return _created(event, record)
    placed = replace(state, seq=record.seq, at=record.recorded_at)
    if placed.terminal:
        return evidence(placed)
    return advance(_folded(placed, event, record.fence))


def _folded(state: State, event: Event, fence: int) -> State:
    if isinstance(event, RunCreated):
        return evidence(state)
    if isinstance(event, ControlFact):
        return apply_control(state, event)
    if isinstance(event, SandboxFact):
        return apply_sandbox(state, event)
    if isinstance(event, DispatchResult):
        return apply_dispatch(state, event, fence)
    return apply_work(state, event)


def _created(event: Event, record: EventRecord) -> State:
    if not isinstance(event, RunCreated):
        raise CorruptHistory(f"run {record.run}: the first event is {record.kind}, not RunCreated")
    return State(
        tenant=event.tenant,
        namespace=event.namespace,
        name=event.name,
        uid=event.uid,
        definition=event.definition,
        template_digest=event.template_digest,
        input_digest=event.input_digest,
        requester=event.requester.username,
        plan=event.plan,
        reducer_version=event.reducer_version,
        workspace=event.workspace,
        seq=record.seq,
        at=record.recorded_at,
        created_at=record.recorded_at,
    )
