"""Commands: what to do next. Issued by the reducer in the transaction of the event that caused them (R6)."""

from typing import Any

import msgspec

from agentrun.core.ids import command_id


class Command(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """One attempt of a step. `not_before` in microseconds UTC, 0 for at once."""

    step: str
    attempt: int
    not_before: int = 0

    @property
    def id(self) -> str:
        """`<step>#<attempt>`."""
        return command_id(self.step, self.attempt)

    @property
    def kind(self) -> str:
        """The command's name."""
        return type(self).__name__


class CallModel(Command, frozen=True, tag="CallModel"):
    """Ask the model for the reply of a turn."""


class CallTool(Command, frozen=True, tag="CallTool"):
    """Carry out a proposed call."""

    tool: str = ""


class PutWorkspace(Command, frozen=True, tag="PutWorkspace"):
    """Bring the input files into the work Pod."""


class GetWorkspace(Command, frozen=True, tag="GetWorkspace"):
    """Take the workspace out of the work Pod."""


class Verify(Command, frozen=True, tag="Verify"):
    """Judge the goal in the fresh Pod."""


AnyCommand = CallModel | CallTool | PutWorkspace | GetWorkspace | Verify

_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnyCommand)


def encode_command(command: AnyCommand) -> bytes:
    """The command as stored."""
    return msgspec.json.encode(command)


def decode_command(body: bytes) -> AnyCommand:
    """The typed command."""
    command: AnyCommand = _decoder.decode(body)
    return command
