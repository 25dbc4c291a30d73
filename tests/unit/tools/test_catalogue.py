"""What the model is shown, and which calls are answered without being dispatched (R15, R16, C45)."""

import json
from typing import Any

import jsonschema
import pytest

from agentrun.api.toolspec import Builtin
from agentrun.core.digest import sha256_digest
from agentrun.core.errors import ErrorClass
from agentrun.tools import builtin
from agentrun.tools.catalogue import Catalogue, Tool
from agentrun.tools.request import NoSandboxTool, tool_request


def spec(name: str, member: str, **more: Any) -> dict[str, Any]:
    """A ToolSpec of a built-in tool."""
    reads = member in ("Read", "List", "Search")
    return {
        "name": name, "executor": "Builtin", "builtin": member,
        "sideEffectClass": "ReadOnly" if reads else "Workspace", "retryClass": "Repeat" if reads else "Reconcile",
        **more,
    }  # fmt: skip


POST = {
    "name": "post", "description": "Posts.", "executor": "HTTP", "http": {"method": "Post", "url": "https://example.org"},
    "sideEffectClass": "External", "retryClass": "Reconcile",
}  # fmt: skip
LINT = {
    "name": "lint", "description": "Lints.", "executor": "Sandbox", "sandbox": {"argv": ["/bin/lint", "--json"]},
    "sideEffectClass": "ReadOnly", "retryClass": "Repeat",
    "inputSchema": {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]},
}  # fmt: skip
GOOD: dict[Builtin, dict[str, Any]] = {
    Builtin.RUN: {"argv": ["pytest", "-q"], "cwd": "src", "env": {"A": "b"}, "timeoutSeconds": 5},
    Builtin.READ: {"path": "a.py", "offset": 1, "limit": 10},
    Builtin.WRITE: {"path": "a.py", "content": "", "executable": True},
    Builtin.EDIT: {"path": "a.py", "old": "a", "new": "", "count": 2},
    Builtin.LIST: {},
    Builtin.SEARCH: {"pattern": "x", "maxMatches": 3},
}
BAD: dict[Builtin, dict[str, Any]] = {
    Builtin.RUN: {"argv": "pytest -q"},
    Builtin.READ: {"path": "a.py", "offset": 0},
    Builtin.WRITE: {"path": "a.py"},
    Builtin.EDIT: {"path": "a.py", "old": "", "new": "x"},
    Builtin.LIST: {"depth": 65},
    Builtin.SEARCH: {"pattern": "x", "glob": "*"},
}


@pytest.mark.parametrize("member", list(Builtin))
def test_each_built_in_takes_what_its_schema_says_and_refuses_the_rest_R15(member: Builtin) -> None:
    tool = Tool(spec("t", member.value))
    assert tool.problem(json.dumps(GOOD[member]).encode()) is None
    problem = tool.problem(json.dumps(BAD[member]).encode())
    assert problem is not None
    assert problem.error_class is ErrorClass.INVALID_ARGUMENTS
    oracle = jsonschema.Draft202012Validator(tool.input_schema)
    assert oracle.is_valid(GOOD[member])
    assert not oracle.is_valid(BAD[member])
    jsonschema.Draft202012Validator.check_schema(tool.input_schema)


def test_a_shell_string_is_told_how_to_be_a_command() -> None:
    assert "not a shell line" in builtin.DESCRIPTIONS[Builtin.RUN]


def test_a_templates_schema_narrows_the_built_in_one_and_both_hold() -> None:
    narrow = {"properties": {"argv": {"prefixItems": [{"const": "pytest"}]}}}
    tool = Tool(spec("run", "Run", inputSchema=narrow))
    assert tool.problem(b'{"argv": ["pytest"]}') is None
    assert tool.problem(b'{"argv": ["rm"]}') is not None
    assert tool.problem(b'{"argv": ["pytest"], "shell": true}') is not None
    assert tool.input_schema["properties"]["argv"]["type"] == "array"
    assert tool.input_schema["allOf"] == [narrow]


def test_a_problem_names_the_path_and_at_most_five_of_them() -> None:
    tool = Tool(spec("run", "Run"))
    problem = tool.problem(json.dumps({"argv": [1] * 20}).encode())
    assert problem is not None
    assert "/argv/0" in problem.detail
    assert problem.detail.count("/argv/") == 5


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"$ref": "https://example.org/schema"}, {"$ref": "file:///etc/passwd"}]
)
def test_a_schema_that_is_none_or_leads_elsewhere_refuses_calls_and_fetches_nothing_R17(schema: dict[str, Any]) -> None:
    problem = Tool({**LINT, "inputSchema": schema}).problem(b'{"file": "a"}')
    assert problem is not None
    assert problem.detail.startswith("inputSchema of tool lint cannot be used")


def test_an_unknown_tool_is_not_found_and_the_answer_names_those_there_are_C45() -> None:
    catalogue = Catalogue({"tools": [spec("run", "Run"), LINT, POST]})
    problem = catalogue.problem("shell\x1b[2J", b"{}")
    assert problem is not None
    assert problem.error_class is ErrorClass.NOT_FOUND
    assert "run, lint" in problem.detail
    assert "\x1b" not in problem.detail


def test_only_what_can_be_carried_out_is_shown_R16() -> None:
    catalogue = Catalogue({"tools": [spec("run", "Run", description="Mine."), LINT, POST]})
    assert [(tool.name, tool.description) for tool in catalogue.shown()] == [("run", "Mine."), ("lint", "Lints.")]
    assert catalogue.tool("post") is None


def test_the_body_holds_the_models_own_bytes_C17() -> None:
    raw = b'{ "argv" : ["a","\\u00e9"],\n"timeoutSeconds":1.0e0 }'
    request = tool_request(Tool(spec("run", "Run")), b" \n" + raw + b"\n", 7, 1000)
    assert raw in request.body
    assert request.arguments_digest == sha256_digest(raw)
    assert json.loads(request.body) == {"arguments": json.loads(raw), "timeoutSeconds": 7, "maxOutputBytes": 1000}
    assert request.op == "run"


def test_a_sandbox_tool_names_the_templates_command_and_an_http_tool_has_no_body() -> None:
    request = tool_request(Tool(LINT), b'{"file": "a"}', 7, 1000)
    assert request.op == "tool"
    assert json.loads(request.body)["argv"] == ["/bin/lint", "--json"]
    with pytest.raises(NoSandboxTool, match="executor HTTP"):
        tool_request(Tool(POST), b"{}", 7, 1000)
