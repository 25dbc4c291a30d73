"""JSON Schema (2020-12) over untrusted values: nothing is fetched, patterns run in linear time."""

from typing import Any

import jsonschema_rs

from agentrun.core.errors import AgentrunError

MAX_PROBLEMS = 5
_SHOWN = 200


class UnusableSchema(AgentrunError):
    """The schema itself cannot be used; the message says why."""


class Schema:
    """A compiled schema. Raises UnusableSchema for one that is none, refers elsewhere or has look-around patterns."""

    def __init__(self, schema: dict[str, Any]) -> None:
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                schema, offline=True, pattern_options=jsonschema_rs.RegexOptions(size_limit=1_000_000)
            )
        except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
            raise UnusableSchema(_first_line(str(error))) from None

    def problems(self, value: Any) -> list[str]:
        """What does not hold, each as `path: message`, at most five."""
        told: list[str] = []
        for error in self._validator.iter_errors(value):
            path = "".join(f"/{part}" for part in error.instance_path)
            told.append(f"{path or 'arguments'}: {_first_line(error.message)}")
            if len(told) == MAX_PROBLEMS:
                break
        return told


def _first_line(message: str) -> str:
    line = message.partition("\n")[0]
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
