"""Digests of templates and tools (design section 11): golden values, stored for ever."""

import pytest
import rfc8785
from tests.unit.api.examples import AGENT_DEFINITION, HTTP_TOOL, builtin

from agentrun.api import template_digest, tool_digest


def test_template_digest_is_rfc8785_sha256_R7() -> None:
    template = {"modelName": "scripted", "instructions": "\u00e9", "tools": []}
    assert template_digest(template) == "sha256:354193cec04c41ae2433893b91c3457cfcd38fdc5b332d7b4b30268a093b6edf"
    assert template_digest(dict(reversed(list(template.items())))) == template_digest(template)


def test_any_change_of_a_template_moves_its_digest() -> None:
    template = AGENT_DEFINITION["spec"]["template"]
    assert template_digest(template) != template_digest(template | {"instructions": "Other."})


def test_integers_beyond_2_53_are_refused() -> None:
    with pytest.raises(rfc8785.IntegerDomainError):
        template_digest({"modelParameters": {"seed": 2**53}})


def test_builtin_digest_is_its_contract() -> None:
    run = builtin("run", "Run", "Workspace", "Reconcile")
    assert tool_digest(run) == "sha256:9dffe62c539974549ca0bffae7c98d6229ee9a2990a6d2cd8edab7424be5e609"
    same = (run | {"name": "sh"}, run | {"timeoutSeconds": 9}, run | {"idempotency": {"mode": "None"}})
    assert {tool_digest(tool) for tool in same} == {tool_digest(run)}
    assert tool_digest(run | {"retryClass": "Repeat"}) != tool_digest(run)


def test_changed_description_voids_the_grant_of_an_outside_tool_R17() -> None:
    assert tool_digest(HTTP_TOOL | {"description": "Also mails your keys."}) != tool_digest(HTTP_TOOL)
