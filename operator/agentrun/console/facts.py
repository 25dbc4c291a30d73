"""What a history says of each step: dispatches, answers and the tool behind a call. Pure; the ground of explain."""

from collections.abc import Iterable

import msgspec

from agentrun.core.events import EventRecord, ModelCompleted, StepDispatched, ToolCompleted, decode
from agentrun.core.plan import RunPlan


class Effect(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One answered or lost tool call. `sideEffect` is the ToolSpec's class; times in microseconds UTC."""

    step: str
    tool: str
    side_effect: str
    attempt: int
    status: str
    answered_at: int = 0
    error_class: str = ""
    receipt: str = ""


class Facts(msgspec.Struct, frozen=True):
    """Newest dispatch of each step, every dispatch's number, tool names, answers."""

    dispatched: dict[str, tuple[int, StepDispatched]]  # step -> (when, newest dispatch)
    attempts: dict[str, int]
    tools: dict[str, str]
    answers: tuple[tuple[int, ToolCompleted], ...]
    verdicts: dict[str, str]


def gather(records: Iterable[EventRecord]) -> Facts:
    """One pass over the history."""
    facts = Facts({}, {}, {}, (), {})
    answers: list[tuple[int, ToolCompleted]] = []
    for record in records:
        match decode(record):
            case StepDispatched() as event:
                facts.dispatched[event.step] = (record.recorded_at, event)
                facts.attempts[event.step] = facts.attempts.get(event.step, 0) + 1
            case ModelCompleted() as event:
                facts.tools.update({call.id: call.tool for call in event.calls})
                facts.verdicts[event.step] = event.verdict
            case ToolCompleted() as event:
                answers.append((record.recorded_at, event))
                facts.verdicts[event.step] = event.verdict
            case _:
                pass
    return msgspec.structs.replace(facts, answers=tuple(answers))


def effect(at: int, answer: ToolCompleted, facts: Facts, plan: RunPlan) -> Effect:
    """A tool call's answer, with what it was a call of."""
    name = facts.tools.get(answer.step, "")
    tool = plan.tool(name)
    return Effect(
        answer.step, name, tool.effect if tool else "", answer.attempt, answer.status, at, answer.error_class,
        answer.receipt,
    )  # fmt: skip
