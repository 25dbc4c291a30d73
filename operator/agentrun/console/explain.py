"""The seven questions about a run, answered from its journal alone (R1, R27; decision 0004). Pure."""

from typing import Any

import msgspec

from agentrun.api.naming import json_name
from agentrun.console.explain_control import control
from agentrun.console.explain_recovery import recovery
from agentrun.console.facts import Effect, Facts, effect, gather
from agentrun.console.histories import History
from agentrun.console.summary import summary
from agentrun.core.events import Event, EventRecord, ModelCompleted, SandboxStarted, decode
from agentrun.core.ledger import LIMITED
from agentrun.core.state import State, Step
from agentrun.core.visible import visible_reason, visible_state

Object = dict[str, Any]
LAST_ACCEPTED = 10
SHOWN = 200  # of each list of effects; the events have the rest


def explain(history: History) -> Object:
    """`{run, identity, state, authority, effects, control, limits, recovery}`."""
    state, facts = history.state, gather(history.records)
    return {
        "run": summary(history.head),
        "identity": _identity(history),
        "state": _state(history),
        "authority": _authority(state, facts),
        "effects": _effects(state, facts),
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
    newest = max(facts.dispatched, key=lambda step: facts.dispatched[step][0], default=None)
    steps = flying or ([newest] if newest else [])
    return {
        "newWork": _new_work(state),
        "actions": [_action(step, facts) for step in steps if step in facts.dispatched],
        "approvalsUsed": [],
    }


def _new_work(state: State) -> str:
    if state.terminal:
        return "refused: the run is finished"
    if state.stop is not None:
        return f"refused: {state.stop.mode} by {state.stop.actor or 'the operator'}"
    if state.unresolved:
        return "held: an effect's outcome is unknown"
    return "held: paused" if state.paused else "judged by the broker before each dispatch"


def _action(step: str, facts: Facts) -> Object:
    at, event = facts.dispatched[step]
    return {
        "step": step,
        "tool": facts.tools.get(step, ""),
        "actor": event.actor,
        "scope": event.scope,
        "approval": event.approval or "none needed",
        "verdict": facts.verdicts.get(step, ""),
        "fingerprint": event.fingerprint,
        "key": event.key,
        "dispatchedAt": at,
    }


# --- what has happened outside --------------------------------------------------------------------------------------


def _effects(state: State, facts: Facts) -> Object:
    answers = [(effect(at, answer, facts, state.plan), answer.replayed) for at, answer in facts.answers]
    lost = [found for found, _ in answers if found.status == "Unknown" or found.step in state.unresolved]
    return {
        "committed": _shown([found for found, _ in answers if found.status in ("Ok", "Error")]),
        "refused": _shown([found for found, _ in answers if found.status == "Refused"]),
        "repeated": _shown([found for found, again in answers if again or facts.attempts.get(found.step, 0) > 1]),
        "unknown": _shown(lost or [_lost(step, facts, state) for step in state.unresolved]),
    }


def _lost(step: str, facts: Facts, state: State) -> Effect:
    name = facts.tools.get(step, "")
    tool = state.plan.tool(name)
    return Effect(step, name, tool.effect if tool else "", facts.attempts.get(step, 0), "Unknown")


def _shown(effects: list[Effect]) -> list[Object]:
    return [msgspec.to_builtins(found) for found in effects[-SHOWN:]]


# --- what is left ---------------------------------------------------------------------------------------------------


def _limits(state: State) -> Object:
    ledger, budget = state.ledger, {}
    for name in LIMITED:
        granted: int | None = getattr(state.plan.budget, name)
        used, reserved = getattr(ledger.used, name), getattr(ledger.reserved, name)
        left = None if granted is None else granted - used - reserved
        budget[json_name(name)] = {"granted": granted, "reserved": reserved, "used": used, "left": left}
    deadlines = {"wallClockAt": state.wall_clock_deadline}
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


__all__ = ["Event", "events_json", "explain"]
