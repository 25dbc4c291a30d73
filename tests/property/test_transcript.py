"""What the model is shown next is well-formed whatever interrupted the run before (R19, C52)."""

from hypothesis import settings
from hypothesis.stateful import invariant
from tests.property.test_reducer_invariants import AnyOrder

from agentrun.core.events import ModelCompleted, decode
from agentrun.core.reducer import commands
from agentrun.core.transcript import Entry, Transcript


class NextRequest(AnyOrder):
    """The same events in any order; looked at whenever a model call is due."""

    @invariant()
    def every_call_has_one_answer_before_the_next_reply_C52(self) -> None:
        if not any(command.kind == "CallModel" for command in commands(self.history.now)):
            return
        transcript = Transcript()
        transcript.feed(self.history.records)
        proposed = {record.seq: _calls(record) for record in self.history.records}
        waiting: list[str] = []
        for entry in transcript.entries(self.history.now):
            waiting = _after(entry, waiting, proposed)
        assert not waiting, f"calls without an answer: {waiting}"

    @invariant()
    def loading_in_two_parts_shows_the_same_R19(self) -> None:
        whole, parts = Transcript(), Transcript()
        whole.feed(self.history.records)
        half = len(self.history.records) // 2
        parts.feed(self.history.records[:half])
        parts.copy().feed(self.history.records[half:])
        parts.feed(self.history.records[half:])
        assert whole.entries(self.history.now) == parts.entries(self.history.now)


def _calls(record: object) -> list[str]:
    event = decode(record)  # type: ignore[arg-type]
    whole = isinstance(event, ModelCompleted) and event.finish != "Length"
    return [call.id for call in event.calls] if whole and isinstance(event, ModelCompleted) else []


def _after(entry: Entry, waiting: list[str], proposed: dict[int, list[str]]) -> list[str]:
    match entry.role:
        case "tool":
            assert entry.call_id in waiting, f"an answer to no call, or a second one: {entry}"
            return [call for call in waiting if call != entry.call_id]
        case "assistant":
            assert not waiting, f"the next reply comes before the answers of {waiting}"
            return list(proposed[entry.seq])
        case _:
            assert not waiting, f"{entry.role} comes between a reply and the answers of {waiting}"
            return waiting


class TestNextRequest(NextRequest.TestCase):  # type: ignore[misc, name-defined]
    """The same steps every time."""

    settings = settings(max_examples=80, stateful_step_count=40, deadline=None, derandomize=True)
