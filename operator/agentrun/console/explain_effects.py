"""What a run has done outside: committed, refused, repeated, unknown (R1). Pure."""

from typing import Any

import msgspec

from agentrun.console.facts import Answer, Effect, Facts
from agentrun.core.state import State

Object = dict[str, Any]
SHOWN = 200  # of each list of effects, the newest; the events have the rest


def effects(state: State, facts: Facts) -> Object:
    """`{committed, refused, repeated, unknown, late}`: lists of Effect. What is repeated stands elsewhere too."""
    answered = [_answered(state, facts, answer) for answer in facts.answers.values()]
    lost = [_unanswered(state, facts, step) for step in facts.proposed if step not in facts.answers]
    found = answered + lost
    again = {step for step, answer in facts.answers.items() if answer.event.replayed}
    return {
        "committed": _shown([effect for effect in answered if effect.status in ("Ok", "Error")]),
        "refused": _shown(_never_sent(state, facts) + [effect for effect in answered if effect.status == "Refused"]),
        "repeated": _shown(
            [effect for effect in found if effect.step in again or facts.attempts.get(effect.step, 0) > 1]
        ),
        "unknown": _shown([effect for effect in found if _is_unknown(effect)]),
        "late": _shown([_answered(state, facts, answer) for answer in facts.late]),
    }


def _answered(state: State, facts: Facts, answer: Answer) -> Effect:
    event, name = answer.event, facts.tool(answer.event.step)
    return Effect(
        event.step, name, _side_effect(state, name), event.attempt, event.status, answer.at, event.error_class,
        event.receipt,
    )  # fmt: skip


def _unanswered(state: State, facts: Facts, step: str) -> Effect:
    name = facts.tool(step)
    attempt = facts.dispatched[step][1].attempt if step in facts.dispatched else 0
    return Effect(step, name, _side_effect(state, name), attempt, _fate(state, step))


def _fate(state: State, step: str) -> str:
    if step in state.unresolved:
        return "Unknown"
    found = state.step(step)
    if found is not None and found.flying:
        return "InFlight"
    going_on = found is not None and found.phase == "open" and state.stop is None and not state.terminal
    return "Waiting" if going_on else "Abandoned"


def _is_unknown(effect: Effect) -> bool:
    """Nobody waits any more for what may have reached somebody outside, though a repetition would have been safe."""
    abandoned = effect.status == "Abandoned" and effect.attempt > 0 and effect.side_effect == "External"
    return effect.status == "Unknown" or abandoned


def _never_sent(state: State, facts: Facts) -> list[Effect]:
    """Calls that were answered without dispatch: no such tool, arguments that do not fit (C45)."""
    return [
        Effect(step, call.tool, _side_effect(state, call.tool), 0, "Refused", at, call.problem or "NotFound")
        for step, (at, call) in facts.proposed.items()
        if call.problem or state.plan.tool(call.tool) is None
    ]


def _side_effect(state: State, tool: str) -> str:
    plan = state.plan.tool(tool)
    return plan.effect if plan else ""


def _shown(found: list[Effect]) -> list[Object]:
    return [msgspec.to_builtins(effect) for effect in found[-SHOWN:]]
