"""The conversation as the model is shown it: a view over the history, never the record (R19)."""

from collections.abc import Iterable

import msgspec

from agentrun.core.events import EventRecord, ModelCompleted, ProposedCall, StepDispatched, ToolCompleted, decode
from agentrun.core.state import State

CONTINUE = (
    "Your last reply was cut at the output limit; nothing of it was carried out. "
    "Go on from where it stopped, in a shorter reply, and propose each tool call again as a whole."
)


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message: its content is `text`, or the blob of that digest. `seq` names the event it comes from."""

    role: str  # user | assistant | tool
    seq: int
    text: str = ""
    blob: str = ""
    call_id: str = ""


class Transcript:
    """Built event by event; the same events give the same entries whatever was loaded from a checkpoint."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, Entry]] = []  # (turn, entry)
        self._attempts: dict[str, int] = {}
        self._turn = 0
        self._open: tuple[str, ...] = ()  # calls of the last reply that nothing has answered

    def copy(self) -> "Transcript":
        """An independent transcript with the same content: what would be shown if more were recorded."""
        other = Transcript()
        other._entries, other._attempts, other._turn = list(self._entries), dict(self._attempts), self._turn
        other._open = self._open
        return other

    def feed(self, records: Iterable[EventRecord]) -> None:
        """Take the next events, in order. An answer to anything but the attempt last dispatched is evidence only."""
        for record in records:
            match decode(record):
                case StepDispatched() as event:
                    self._attempts[event.step] = event.attempt
                case ModelCompleted() as event if self._answers(event.step, event.attempt):
                    self._model(record.seq, event)
                case ToolCompleted() as event if event.step in self._open and self._answers(event.step, event.attempt):
                    self._answered(Entry("tool", record.seq, blob=event.output, call_id=event.step))
                case _:
                    pass

    def entries(self, state: State) -> tuple[Entry, ...]:
        """Messages after the system's and the input's, steering included where it was delivered."""
        steers = sorted((steer for steer in state.steering if steer.turn), key=lambda steer: steer.turn)
        result: list[Entry] = []
        for turn, entry in self._entries:
            while steers and entry.role == "assistant" and steers[0].turn <= turn:
                result.append(Entry("user", 0, blob=steers.pop(0).message))
            result.append(entry)
        return (*result, *self._interrupted(state), *(Entry("user", 0, blob=steer.message) for steer in steers))

    def _answers(self, step: str, attempt: int) -> bool:
        return self._attempts.pop(step, 0) == attempt

    def _add(self, entry: Entry) -> None:
        self._entries.append((self._turn, entry))

    def _answered(self, entry: Entry) -> None:
        self._add(entry)
        self._open = tuple(call for call in self._open if call != entry.call_id)

    def _model(self, seq: int, event: ModelCompleted) -> None:
        for call_id in self._open:
            self._answered(_interruption(call_id, seq))
        self._turn += 1
        self._add(Entry("assistant", seq, blob=event.message))
        if event.finish == "Length":
            self._add(Entry("user", seq, text=CONTINUE))
            return
        self._open = tuple(call.id for call in event.calls)
        for call in event.calls:
            if call.problem:
                self._answered(Entry("tool", seq, text=refusal(call), call_id=call.id))

    def _interrupted(self, state: State) -> list[Entry]:
        """Every call is answered before the next request, whatever interrupted it (C52)."""
        live = {call.step.id for call in state.calls if call.step.phase != "closed"}
        return [_interruption(call_id, state.seq) for call_id in self._open if call_id not in live]


def _interruption(call_id: str, seq: int) -> Entry:
    return Entry("tool", seq, text="Error: the call was interrupted", call_id=call_id)


def refusal(call: ProposedCall) -> str:
    """What the model is told of a call that was not carried out."""
    return f"{call.problem}: {call.detail}"
