"""The six built-in tools: what the model is shown of them, and the sandbox operation behind each."""

from typing import Any

from agentrun.api.toolspec import Builtin

_PATH = {"type": "string", "minLength": 1, "maxLength": 4096}
_SECONDS = {"type": "integer", "minimum": 1, "maximum": 86_400, "description": "Most seconds; absent: the tool's own."}
_LINE = {"type": "integer", "minimum": 1, "maximum": 2_147_483_647}


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


OPS: dict[Builtin, str] = {
    Builtin.RUN: "run",
    Builtin.READ: "read",
    Builtin.WRITE: "write",
    Builtin.EDIT: "edit",
    Builtin.LIST: "list",
    Builtin.SEARCH: "search",
}

DESCRIPTIONS: dict[Builtin, str] = {
    Builtin.RUN: (
        "Run a program in the workspace and wait for it. argv is the program and its arguments, not a shell line; "
        'for a shell use ["sh", "-c", "…"]. Standard input is empty. Processes it leaves behind are ended.'
    ),
    Builtin.READ: "Read a file of the workspace, or lines of it: offset is the first line, from 1.",
    Builtin.WRITE: "Write a whole file of the workspace; folders on the way are made.",
    Builtin.EDIT: "Replace a text that occurs exactly count times (1) in a file by another. Copy it exactly.",
    Builtin.LIST: "List a folder of the workspace, depth levels deep (1).",
    Builtin.SEARCH: "Find lines that a regular expression matches (Python syntax), in a file or below a folder.",
}

SCHEMAS: dict[Builtin, dict[str, Any]] = {
    Builtin.RUN: _object(
        ("argv",),
        argv={
            "type": "array",
            "items": {"type": "string", "maxLength": 131_072, "pattern": "^[^\\x00]*$"},
            "minItems": 1,
            "maxItems": 256,
            "description": "Program and arguments.",
        },
        cwd={**_PATH, "description": "Folder to run in, below the workspace; absent: the workspace."},
        env={
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": 32_768},
            "maxProperties": 64,
            "description": "Variables added to the environment.",
        },
        timeoutSeconds=_SECONDS,
    ),
    Builtin.READ: _object(
        ("path",),
        path=_PATH,
        offset={**_LINE, "description": "First line, from 1."},
        limit={**_LINE, "description": "Most lines."},
    ),
    Builtin.WRITE: _object(
        ("path", "content"),
        path=_PATH,
        content={"type": "string", "maxLength": 4_194_304},
        executable={"type": "boolean", "description": "Whether it can be run; absent: as it was."},
    ),
    Builtin.EDIT: _object(
        ("path", "old", "new"),
        path=_PATH,
        old={"type": "string", "minLength": 1, "maxLength": 4_194_304, "description": "Text that stands there."},
        new={"type": "string", "maxLength": 4_194_304, "description": "Text to put in its place."},
        count={"type": "integer", "minimum": 1, "maximum": 1_000_000, "description": "How often it occurs; absent: 1."},
    ),
    Builtin.LIST: _object(
        (),
        path={**_PATH, "description": "Folder; absent: the workspace."},
        depth={"type": "integer", "minimum": 1, "maximum": 64},
    ),
    Builtin.SEARCH: _object(
        ("pattern",),
        pattern={"type": "string", "minLength": 1, "maxLength": 1000},
        path={**_PATH, "description": "File or folder; absent: the workspace."},
        maxMatches={"type": "integer", "minimum": 1, "maximum": 1000, "description": "Absent: 100."},
    ),
}
