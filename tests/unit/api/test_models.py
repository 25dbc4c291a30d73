"""Models: full examples are valid, wrong input is refused with the field and the fix."""

from typing import Any

import pytest
from tests.unit.api.examples import AGENT_CLASS, AGENT_DEFINITION, AGENT_RUN, ALL, TOOL_GRANT, builtin, edited

from agentrun.api.kinds import BY_KIND, KINDS
from agentrun.api.validate import InvalidManifest, parse

TOOLS = "spec.template.tools"


@pytest.mark.parametrize("kind", sorted(ALL))
def test_full_example_is_valid_and_comes_back_as_it_was(kind: str) -> None:
    assert parse(ALL[kind]).to_json() == ALL[kind]


def test_every_field_of_spec_is_in_an_example() -> None:
    stamped = {"attribution", "parent", "onBehalfOf", "forkFrom"}
    acts = {"operatingMode", "stop", "steering", "topUps", "resolutions", "migrateTo"}
    for kind in KINDS:
        spec = BY_KIND[kind.kind].model.model_fields["spec"].annotation
        fields = {field.alias for field in spec.model_fields.values()}  # type: ignore[union-attr]
        assert fields - set(ALL[kind.kind]["spec"]) <= stamped | acts


WRONG: list[tuple[dict[str, Any], str, Any, str, str]] = [
    (AGENT_RUN, "spec.definitionRef", None, "spec.definitionRef", "is required"),
    (AGENT_RUN, "spec.definitonRef", {}, "spec.definitonRef", "correct its spelling"),
    (AGENT_RUN, "spec.budget.modelCalls", "many", "spec.budget.modelCalls", "integer"),
    (AGENT_RUN, "spec.budget.modelCalls", True, "spec.budget.modelCalls", "integer"),
    (AGENT_RUN, "spec.budget.modelCalls", 1.0, "spec.budget.modelCalls", "integer"),
    (AGENT_RUN, "spec.budget.modelCalls", -1, "spec.budget.modelCalls", "greater than or equal to 0"),
    (AGENT_RUN, "spec.budget.costMicroUSD", 2**63, "spec.budget.costMicroUSD", "less than or equal to"),
    (AGENT_RUN, "spec.input.files.0.path", "../etc/passwd", "spec.input.files[0].path", "relative path"),
    (AGENT_RUN, "spec.input.files.0.path", "/etc/passwd", "spec.input.files[0].path", "relative path"),
    (AGENT_RUN, "spec.input.files.0.path", "a/../b", "spec.input.files[0].path", "relative path"),
    (AGENT_RUN, "spec.input.files.0.path", "a//b", "spec.input.files[0].path", "relative path"),
    (AGENT_RUN, "spec.input.files.0.path", "a\nb", "spec.input.files[0].path", "relative path"),
    (AGENT_RUN, "spec.input.files.0.text", None, "spec.input.files[0]", "exactly one of text"),
    (AGENT_RUN, "spec.input.files.1.text", "x", "spec.input.files[1]", "exactly one of text"),
    (AGENT_RUN, "spec.input.files.1.path", "src/app.py", "spec.input", "unique"),
    (AGENT_RUN, "spec.input.files.0.text", "\u00e9" * 65_537, "spec.input", "131072 bytes"),
    (AGENT_RUN, "spec.stop", {"mode": "Stop"}, "spec.stop.mode", "'Cancel' or 'Kill'"),
    (AGENT_CLASS, "spec.models.0.endpoint", "https://x.example.com", "spec.models[0]", "set endpoint"),
    (AGENT_CLASS, "spec.models.1.endpoint", None, "spec.models[1]", "set endpoint"),
    (AGENT_CLASS, "spec.egress.allow.0.cidr", "10.0.0.0/8", "spec.egress.allow[0]", "exactly one of host, cidr"),
    (AGENT_DEFINITION, f"{TOOLS}.0.outputSchema", {}, f"{TOOLS}[0]", "outputSchema is fixed"),
    (AGENT_DEFINITION, f"{TOOLS}.0.retryClass", "Repeat", f"{TOOLS}[0]", "ReadOnly or idempotency.mode Natural"),
    (AGENT_DEFINITION, f"{TOOLS}.0.retryClass", "SameKey", f"{TOOLS}[0]", "needs idempotency.mode Key"),
    (AGENT_DEFINITION, f"{TOOLS}.0.builtin", "Read", f"{TOOLS}[0]", "Read, List and Search are"),
    (AGENT_DEFINITION, f"{TOOLS}.0.executor", "Sandbox", f"{TOOLS}[0]", "set sandbox"),
    (AGENT_DEFINITION, f"{TOOLS}.6.mcp", {"server": "docs", "tool": "x"}, f"{TOOLS}[6]", "set http"),
    (AGENT_DEFINITION, f"{TOOLS}.6.description", None, f"{TOOLS}[6]", "description is required"),
    (AGENT_DEFINITION, f"{TOOLS}.6.idempotency.mode", "None", f"{TOOLS}[6].idempotency", "set mode: Key"),
    (AGENT_DEFINITION, f"{TOOLS}.1.name", "run", "spec.template", "unique"),
    (AGENT_DEFINITION, "spec.template.sandbox", None, "spec.template", "set sandbox.image"),
    (TOOL_GRANT, "spec.tools.1.match.0.prefix", "d", "spec.tools[1].match[0]", "exactly one of equals, in"),
    (TOOL_GRANT, "spec.tools.1.match.4.range", {}, "spec.tools[1].match[4].range", "set min, max or both"),
    (TOOL_GRANT, "spec.requesters.0.namespace", "x", "spec.requesters[0]", "kind: ServiceAccount"),
    (TOOL_GRANT, "spec.expirationTime", "tomorrow", "spec.expirationTime", "RFC 3339"),
    (TOOL_GRANT, "spec.tools", [], "spec.tools", "at least 1 item"),
    (AGENT_RUN, "kind", "AgentRan", "kind", "AgentRun"),
    (AGENT_RUN, "apiVersion", "agentrun.dev/v2", "apiVersion", "agentrun.dev/v1alpha1"),
]


@pytest.mark.parametrize(("manifest", "path", "value", "field", "fix"), WRONG)
def test_wrong_input_is_refused_with_field_and_fix(
    manifest: dict[str, Any], path: str, value: Any, field: str, fix: str
) -> None:
    with pytest.raises(InvalidManifest) as caught:
        parse(edited(manifest, path, value))
    assert field in [problem.path for problem in caught.value.problems]
    assert fix in str(caught.value)


@pytest.mark.parametrize("path", ["a", ".git/config", "..a", "...", "a/..b/c.d", "with space", "\u00fcber/\u4e2d"])
def test_good_paths_are_accepted(path: str) -> None:
    parse(edited(AGENT_RUN, "spec.input.files.0.path", path))


def test_a_natural_write_may_be_repeated_R12() -> None:
    tool = builtin("write", "Write", "Workspace", "Repeat") | {"idempotency": {"mode": "Natural"}}
    parse(edited(AGENT_DEFINITION, f"{TOOLS}.2", tool))


def test_status_of_a_newer_version_is_readable() -> None:
    run = parse(AGENT_RUN | {"status": {"state": "running", "fieldOfTomorrow": 1}})
    assert run.to_json()["status"] == {"state": "running"}
