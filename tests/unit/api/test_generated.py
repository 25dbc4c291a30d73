"""What is checked in is what the models generate."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agentrun.api.crd import open_api_schema
from agentrun.api.crdgen import documents, generate, generate_chart, render
from agentrun.api.kinds import BY_KIND
from agentrun.api.reference import reference

ROOT = Path(__file__).resolve().parents[3]
MESSAGE = "run: python -m agentrun.api.crdgen crds"


def test_checked_in_crds_and_policies_are_generated_ones(tmp_path: Path) -> None:
    written = {path.name: path.read_text() for path in generate(tmp_path)}
    checked_in = {path.name: path.read_text() for path in (ROOT / "crds").glob("*.yaml")}
    assert sorted(written) == sorted(checked_in), MESSAGE
    assert [name for name, text in written.items() if checked_in[name] != text] == [], MESSAGE


def test_checked_in_reference_is_the_generated_one() -> None:
    assert (ROOT / "docs/reference/api.md").read_text() == reference(), "run: python -m agentrun.api.reference"


def test_checked_in_chart_templates_are_generated_ones(tmp_path: Path) -> None:
    templates = ROOT / "charts/agentrun-crds/templates"
    different = [
        path.name for path in generate_chart(tmp_path) if (templates / path.name).read_text() != path.read_text()
    ]
    assert different == [], "run: python -m agentrun.api.crdgen --chart charts/agentrun-crds/templates"


def test_the_operators_namespace_is_a_parameter(tmp_path: Path) -> None:
    generate(tmp_path / "plain", operator_namespace="elsewhere")
    generate_chart(tmp_path / "chart")
    status = "admission-status.yaml"
    assert "system:serviceaccount:elsewhere:agentrun-operator" in (tmp_path / "plain" / status).read_text()
    wanted = "system:serviceaccount:{{ .Values.operatorNamespace }}:agentrun-operator"
    assert wanted in (tmp_path / "chart" / status).read_text()


def test_chart_has_no_template_syntax_but_the_namespace(tmp_path: Path) -> None:
    text = "".join(path.read_text() for path in generate_chart(tmp_path))
    assert "{{" not in text.replace("{{ .Values.operatorNamespace }}", "")


def test_an_uninstalled_chart_leaves_the_crds(tmp_path: Path) -> None:
    files = [path for path in generate_chart(tmp_path) if path.name.startswith("agentrun.dev_")]
    kept = [yaml.safe_load(path.read_text())["metadata"]["annotations"]["helm.sh/resource-policy"] for path in files]
    assert kept == ["keep"] * 5


@pytest.mark.parametrize("name", sorted(documents()))
def test_yaml_says_what_was_built(name: str) -> None:
    built = documents()[name]
    assert list(yaml.safe_load_all(render(built, "OPERATOR-NAMESPACE"))) == built


def test_a_caller_may_change_what_it_got() -> None:
    def rules(schema: dict[str, Any]) -> list[dict[str, str]]:
        return [*schema["x-kubernetes-validations"], *schema["properties"]["spec"]["x-kubernetes-validations"]]

    for rule in rules(open_api_schema(BY_KIND["AgentRun"])):
        rule["rule"] = "true"
    assert [rule for rule in rules(open_api_schema(BY_KIND["AgentRun"])) if rule["rule"] == "true"] == []
