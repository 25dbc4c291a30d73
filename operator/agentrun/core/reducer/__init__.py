"""Pure, versioned transition function: `(S', C) = reduce(S, e)` (R2). One package per version; old ones stay."""

from collections.abc import Callable

import msgspec

from agentrun.core.commands import AnyCommand
from agentrun.core.errors import CorruptHistory, UnknownReducerVersion
from agentrun.core.events import EventRecord, RunCreated, decode
from agentrun.core.reducer import v1
from agentrun.core.state import State

CURRENT_VERSION = 1


class Reduction(msgspec.Struct, frozen=True):
    """The next state, and the change in what is to be done: commands issued, and ids finished or withdrawn."""

    state: State
    issued: tuple[AnyCommand, ...]
    withdrawn: tuple[str, ...]


_VERSIONS: dict[int, tuple[Callable[[State | None, EventRecord], State], Callable[[State], tuple[AnyCommand, ...]]]] = {
    1: (v1.apply, v1.wanted),
}


def _version(
    version: int,
) -> tuple[Callable[[State | None, EventRecord], State], Callable[[State], tuple[AnyCommand, ...]]]:
    try:
        return _VERSIONS[version]
    except KeyError:
        known = ", ".join(str(v) for v in _VERSIONS)
        raise UnknownReducerVersion(
            f"the run was recorded under reducer version {version}; this build carries {known}: use a build that has it"
        ) from None


def commands(state: State | None) -> tuple[AnyCommand, ...]:
    """Everything that is to be done in this state: in flight or due."""
    return () if state is None else _version(state.reducer_version)[1](state)


def fold(state: State | None, record: EventRecord) -> State:
    """The next state alone: for who asks for the commands once, after many events."""
    apply, _wanted = _version(_governing_version(state, record))
    return apply(state, record)


def reduce(state: State | None, record: EventRecord) -> Reduction:
    """Apply one accepted event under the version that governs the run."""
    before = {command.id: command for command in commands(state)}
    after = fold(state, record)
    now = commands(after)
    ids = {command.id for command in now}
    return Reduction(
        after,
        tuple(command for command in now if command.id not in before),
        tuple(command_id for command_id in before if command_id not in ids),
    )


def _governing_version(state: State | None, record: EventRecord) -> int:
    if state is not None:
        return state.reducer_version
    event = decode(record)
    if not isinstance(event, RunCreated):
        raise CorruptHistory(f"run {record.run}: the first event is {record.kind}, not RunCreated")
    return event.reducer_version
