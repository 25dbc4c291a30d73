"""What a history says of each step: dispatches, answers and the tool behind a call. Pure; the ground of explain."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import msgspec

from agentrun.core.events import EventRecord, ModelCompleted, ProposedCall, StepDispatched, ToolCompleted, decode


class Effect(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One tool call. `side_effect` is the ToolSpec's class; times in microseconds UTC.

    `status`: Ok, Error, Refused, Unknown as answered; without an answer Unknown, Abandoned, InFlight or Waiting.
    """

    step: str
    tool: str
    side_effect: str
    attempt: int
    status: str
    answered_at: int = 0
    error_class: str = ""
    receipt: str = ""


class Answer(msgspec.Struct, frozen=True):
    """A tool's answer and when it was recorded."""

    at: int
    event: ToolCompleted


class Facts(msgspec.Struct, frozen=True):
    """Newest dispatch of each step (newest last), how many there were, proposals and answers by step."""

    dispatched: dict[str, tuple[int, StepDispatched]]  # step -> (when, newest dispatch)
    attempts: dict[str, int]
    proposed: dict[str, tuple[int, ProposedCall]]
    answers: dict[str, Answer]
    late: list[Answer]  # evidence: they changed nothing
    verdicts: dict[str, str]

    def tool(self, step: str) -> str:
        """The tool behind a call; empty for other steps."""
        return self.proposed[step][1].tool if step in self.proposed else ""


def gather(records: Iterable[EventRecord], late: AbstractSet[int]) -> Facts:
    """One pass over the history. `late`: seqs of what the reducer took as evidence only."""
    facts = Facts({}, {}, {}, {}, [], {})
    for record in records:
        match decode(record):
            case StepDispatched() as event:
                facts.dispatched.pop(event.step, None)
                facts.dispatched[event.step] = (record.recorded_at, event)
                facts.attempts[event.step] = facts.attempts.get(event.step, 0) + 1
            case ModelCompleted() as event if record.seq not in late:
                facts.proposed.update({call.id: (record.recorded_at, call) for call in event.calls})
                facts.verdicts[event.step] = event.verdict
            case ToolCompleted() as event if record.seq not in late:
                facts.answers[event.step] = Answer(record.recorded_at, event)
                facts.verdicts[event.step] = event.verdict
            case ToolCompleted() as event:
                facts.late.append(Answer(record.recorded_at, event))
            case _:
                pass
    return facts
