"""The tools of a template: what the model is shown (gate 2), and which proposed calls can be carried out (R15, R16)."""

from typing import Any

import msgspec

from agentrun.api.digests import tool_digest
from agentrun.api.toolspec import Executor, ToolSpec
from agentrun.core.errors import ErrorClass
from agentrun.tools import builtin
from agentrun.tools.jsontext import InvalidJson, parse_object
from agentrun.tools.schema import Schema, UnusableSchema

EXECUTORS = (Executor.BUILTIN, Executor.SANDBOX)  # those this version carries out
_ANY_OBJECT: dict[str, Any] = {"type": "object"}
_NAMED = 20


class ShownTool(msgspec.Struct, frozen=True):
    """What the model learns of a tool. Exposure improves its choice and grants nothing."""

    name: str
    description: str
    input_schema: dict[str, Any]


class Problem(msgspec.Struct, frozen=True):
    """Why a proposed call is answered without being dispatched; `detail` is for the model."""

    error_class: ErrorClass
    detail: str


class Tool:
    """One tool of a template."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.spec = ToolSpec.model_validate(raw)
        self.digest = tool_digest(raw)
        self.input_schema = _shown_schema(self.spec)
        self._schemas: tuple[Schema, ...] | str | None = None

    @property
    def name(self) -> str:
        """As the model calls it."""
        return self.spec.name

    def shown(self) -> ShownTool:
        """For the model."""
        text = self.spec.description or (builtin.DESCRIPTIONS[self.spec.builtin] if self.spec.builtin else "")
        return ShownTool(self.name, text, self.input_schema)

    def problem(self, raw: bytes) -> Problem | None:
        """Whether these argument bytes can be a call of it."""
        try:
            value = parse_object(raw)
        except InvalidJson as error:
            return Problem(ErrorClass.INVALID_ARGUMENTS, f"arguments of {self.name}: {error}")
        schemas = self._compiled()
        if isinstance(schemas, str):
            return Problem(ErrorClass.INVALID_ARGUMENTS, f"inputSchema of tool {self.name} cannot be used: {schemas}")
        told = [problem for schema in schemas for problem in schema.problems(value)]
        if told:
            return Problem(ErrorClass.INVALID_ARGUMENTS, f"arguments of {self.name}: {'; '.join(told)}")
        return None

    def _compiled(self) -> tuple[Schema, ...] | str:
        if self._schemas is None:
            try:
                self._schemas = tuple(Schema(schema) for schema in _schemas(self.spec))
            except UnusableSchema as error:
                self._schemas = str(error)
        return self._schemas


class Catalogue:
    """The tools of one frozen template, by name."""

    def __init__(self, template: dict[str, Any]) -> None:
        tools = [Tool(raw) for raw in template.get("tools", ())]
        self._tools = {tool.name: tool for tool in tools if tool.spec.executor in EXECUTORS}

    def shown(self) -> tuple[ShownTool, ...]:
        """All that this version can carry out, in the template's order."""
        return tuple(tool.shown() for tool in self._tools.values())

    def tool(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)

    def problem(self, name: str, arguments: bytes) -> Problem | None:
        """NotFound or InvalidArguments; None for a call that may go on to gate 3 (C45)."""
        tool = self._tools.get(name)
        if tool is None:
            names = ", ".join(list(self._tools)[:_NAMED]) or "none"
            return Problem(ErrorClass.NOT_FOUND, f"there is no tool named {name[:128]!r}; the tools are: {names}")
        return tool.problem(arguments)


def _schemas(spec: ToolSpec) -> list[dict[str, Any]]:
    """Every schema must hold: a template's own one narrows the built-in one."""
    schemas = [builtin.SCHEMAS[spec.builtin]] if spec.builtin else []
    if spec.input_schema is not None:
        schemas.append(dict(spec.input_schema))
    return schemas or [_ANY_OBJECT]


def _shown_schema(spec: ToolSpec) -> dict[str, Any]:
    schemas = _schemas(spec)
    return schemas[0] if len(schemas) == 1 else {**schemas[0], "allOf": schemas[1:]}
