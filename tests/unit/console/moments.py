"""Runs at moments of their life, and what the console answers about them."""

from typing import Any

import msgspec
from tests.histories import BLOB, PAY, READ, TENANT, VERIFIED_PLAN, WRITE, History, created

from agentrun.console.explain import explain
from agentrun.console.histories import verified
from agentrun.core.events import (
    Actor,
    LeaseTaken,
    ModeChanged,
    StopRequested,
    WorkspaceGot,
    WorkspacePut,
)
from agentrun.core.plan import BudgetPlan, RunPlan, ToolPlan
from agentrun.core.visible import visible_state
from agentrun.journal.port import RunHead, RunKey

Object = dict[str, Any]
ANN = Actor("ann")
SEND = ToolPlan("send", "sha256:" + "4" * 64, "HTTP", "External", "SameKey")
LOOK = ToolPlan("look", "sha256:" + "5" * 64, "HTTP", "ReadOnly")  # retry left at its default
TOOLS = (READ, WRITE, PAY, SEND, LOOK)
LIMITS = BudgetPlan(model_calls=10, input_tokens=5000, output_tokens=50_000, tool_calls=20, mutations=3)
PLAN = RunPlan(tools=TOOLS, budget=LIMITS)
MEMBERS = {"run", "identity", "state", "authority", "effects", "control", "limits", "recovery"}


def head_of(history: History) -> RunHead:
    """The row a journal keeps beside this history."""
    state, last = history.now, history.records[-1]
    key = RunKey(
        run=state.uid, tenant=TENANT, namespace=state.namespace, name=state.name, definition=state.definition,
        template_digest=state.template_digest, input_digest=state.input_digest, requester=state.requester,
        reducer_version=1,
    )  # fmt: skip
    outcome = state.outcome.reason if state.outcome else None
    return RunHead(
        key, last.seq, last.hash, last.fence, None, 0, visible_state(state).value, state.terminal, outcome,
        state.created_at, state.at,
    )  # fmt: skip


def explained(history: History) -> Object:
    """The answer as it goes over the wire."""
    answer = explain(verified(head_of(history), tuple(history.records)))
    decoded: Object = msgspec.json.decode(msgspec.json.encode(answer))
    return decoded


def steps(items: list[Object]) -> list[str]:
    """Step ids."""
    return [item["step"] for item in items]


def new(plan: RunPlan = PLAN) -> History:
    """A run that has just been journalled."""
    return History(created(plan))


def working(*tools: str, plan: RunPlan = PLAN) -> History:
    """The model has proposed calls of these tools, and the sandbox is there."""
    return new(plan).admit().started().dispatch("t1").reply("t1", *tools)


def flying(tool: str, plan: RunPlan = PLAN) -> History:
    """Call t1c0 of this tool is in flight."""
    return working(tool, plan=plan).dispatch("t1c0")


def taken_over(history: History) -> History:
    """Another owner has the run now."""
    history.fence += 1
    return history.add(LeaseTaken("other"))


def pause(history: History) -> History:
    """Somebody wants the run to stand still."""
    return history.add(ModeChanged(paused=True, generation=2, actor=ANN))


def stop(history: History, mode: str = "Cancel") -> History:
    """Somebody wants the run to end."""
    return history.add(StopRequested(mode, ANN, "enough"))


def out_of_budget() -> History:
    """One model call was granted and is used."""
    plan = RunPlan(tools=TOOLS, budget=BudgetPlan(model_calls=1))
    return flying("read", plan).answer("t1c0")


def verifying() -> History:
    """The goal is being judged."""
    history = new(VERIFIED_PLAN).admit().started().dispatch("put1").add(WorkspacePut("put1", 1, "pod-1"))
    history.dispatch("t1").reply("t1").dispatch("get1").add(WorkspaceGot("get1", 1, BLOB))
    return history.started("verify", "pod-v").dispatch("verify1")
