"""The seven questions about a run, answered from its journal alone (R1, R27; decision 0004). Pure."""

from typing import Any

import msgspec

from agentrun.api.naming import json_name
from agentrun.console.explain_control import control
from agentrun.console.explain_effects import effects
from agentrun.console.explain_recovery import recovery
from agentrun.console.facts import Facts, gather
from agentrun.console.histories import History
from agentrun.console.summary import summary
from agentrun.core.deadlines import idle_deadline
from agentrun.core.events import EventRecord, ModelCompleted, SandboxStarted, decode
from agentrun.core.ledger import LIMITED
from agentrun.core.schedule import lacking
from agentrun.core.state import State, Step
from agentrun.core.visible import visible_reason, visible_state

Object = dict[str, Any]
LAST_ACCEPTED = 10


def explain(history: History) -> Object:
    """`{run, identity, state, authority, effects, control, limits, recovery}`."""
    state, facts = history.state, gather(history.records, history.late)
    return {
        "run": summary(history.head),
        "identity": _identity(history),
        "state": _state(history),
        "authority": _authority(state, facts),
        "effects": effects(state, facts),
        "control": control(state),
        "limits": _limits(state),
        "recovery": recovery(state),
    }


# --- who, and under which definition --------------------------------------------------------------------------------


def _identity(history: History) -> Object:
    state = history.state
    return {
        "tenant": state.tenant.key,
        "namespace": state.namespace,
        "name": state.name,
        "uid": state.uid,
        "requester": state.requester,
        "definition": state.definition,
        "templateDigest": state.template_digest,
        "reducerVersion": state.reducer_version,
        "inputDigest": state.input_digest,
        "model": _newest_adapter(history.records),
        "images": _images(history.records),
        "createdAt": state.created_at,
    }


def _newest_adapter(records: tuple[EventRecord, ...]) -> str:
    replies = (decode(record) for record in reversed(records) if record.kind == "ModelCompleted")
    return next((event.adapter for event in replies if isinstance(event, ModelCompleted)), "")


def _images(records: tuple[EventRecord, ...]) -> list[str]:
    started = (decode(record) for record in records if record.kind == "SandboxStarted")
    images = (image for event in started if isinstance(event, SandboxStarted) for image in event.image_ids)
    return sorted(set(images))


# --- where it stands ------------------------------------------------------------------------------------------------


def _state(history: History) -> Object:
    state, head = history.state, history.records[-1]
    return {
        "state": visible_state(state).value,
        "reason": visible_reason(state),
        "message": state.outcome.message if state.outcome else "",
        "headSeq": head.seq,
        "headHash": head.hash,
        "headFence": head.fence,
        "accepted": _accepted(history.records),
        "unfinished": [_unfinished(state, step) for step in state.steps if step.phase != "closed"],
        "lateFactsKeptAsEvidence": state.evidence,
    }


def _accepted(records: tuple[EventRecord, ...]) -> list[Object]:
    facts = [record for record in records if record.source_key is not None][-LAST_ACCEPTED:]
    return [
        {"seq": fact.seq, "kind": fact.kind, "sourceKey": fact.source_key, "recordedAt": fact.recorded_at}
        for fact in facts
    ]


def _unfinished(state: State, step: Step) -> Object:
    call = state.call(step.id)
    return {
        "step": step.id,
        "kind": step.kind,
        "tool": call.tool if call else "",
        "attempt": step.attempt,
        "phase": step.phase,
        "deadlineAt": step.deadline,
        "nextAttemptAt": step.not_before,
    }


# --- what allows it -------------------------------------------------------------------------------------------------


def _authority(state: State, facts: Facts) -> Object:
    flying = [step.id for step in state.flying]
    steps = flying or list(facts.dispatched)[-1:]
    return {
        "newWork": _new_work(state),
        "actions": [_action(step, facts) for step in steps if step in facts.dispatched],
        "approvalsUsed": sorted({event.approval for _, event in facts.dispatched.values() if event.approval}),
    }


def _new_work(state: State) -> str:
    if state.terminal:
        return "refused: the run is finished"
    if state.stop is not None:
        return f"refused: {state.stop.mode} by {state.stop.actor or 'the operator'}"
    if state.unresolved:
        return "held: an effect's outcome is unknown"
    if not state.admitted_at:
        return "held: not admitted yet"
    return _held(state) or "judged by the broker before each dispatch"


def _held(state: State) -> str:
    limit = lacking(state)
    if state.paused:
        return "held: paused"
    return f"held: the budget of {json_name(limit)} has no room for the next step" if limit else ""


def _action(step: str, facts: Facts) -> Object:
    at, event = facts.dispatched[step]
    return {
        "step": step,
        "tool": facts.tool(step),
        "actor": event.actor,
        "scope": event.scope,
        "approval": event.approval or "none needed",
        "verdict": facts.verdicts.get(step, ""),
        "fingerprint": event.fingerprint,
        "key": event.key,
        "dispatchedAt": at,
    }


# --- what is left ---------------------------------------------------------------------------------------------------


def _limits(state: State) -> Object:
    """left = granted - used - reserved; `beyondReserved` is what calls took that nothing had been reserved for."""
    ledger, budget = state.ledger, {}
    for name in LIMITED:
        granted: int | None = getattr(state.plan.budget, name)
        used, reserved = getattr(ledger.used, name), getattr(ledger.reserved, name)
        left = None if granted is None else granted - used - reserved
        excess = getattr(ledger.excess, name)
        budget[json_name(name)] = {
            "granted": granted, "reserved": reserved, "used": used, "left": left, "beyondReserved": excess,
        }  # fmt: skip
    deadlines = {"wallClockAt": state.wall_clock_deadline, "idleAt": idle_deadline(state)}
    return {"budget": budget, "deadlines": deadlines | {f"{step.id}At": step.deadline for step in state.flying}}


def events_json(records: list[EventRecord]) -> list[Object]:
    """Events as the read API shows them; bodies are the stored JSON."""
    return [
        {
            "seq": record.seq,
            "kind": record.kind,
            "kindVersion": record.kind_version,
            "fence": record.fence,
            "sourceKey": record.source_key,
            "recordedAt": record.recorded_at,
            "hash": record.hash,
            "body": msgspec.json.decode(record.body),
        }
        for record in records
    ]
