"""The examples and the manifests of the e2e suite: valid, and what they claim is true of the files they carry."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentrun.api.validate import parse

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/01-fix-a-failing-test"
FILES = sorted([*ROOT.glob("examples/*/*.yaml"), *ROOT.glob("tests/e2e/manifests/*.yaml")])


def documents(path: Path) -> list[dict[str, Any]]:
    """Every document of a file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_manifest_is_valid(path: Path) -> None:
    ours = [document for document in documents(path) if document["apiVersion"].startswith("agentrun.dev/")]
    assert ours or path.name == "10-project.yaml"
    for document in ours:
        parse(document)


def _unpack(folder: Path) -> None:
    project = documents(EXAMPLE / "10-project.yaml")[0]["data"]
    for item in documents(EXAMPLE / "40-run.yaml")[0]["spec"]["input"]["files"]:
        target = folder / item["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(item.get("text") or project[item["configMapKeyRef"]["key"]])


def _pytest(folder: Path) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode


def test_the_example_fails_before_its_edit_and_passes_after_it(tmp_path: Path) -> None:
    _unpack(tmp_path)
    assert _pytest(tmp_path) == 1
    turns = documents(EXAMPLE / "20-definition.yaml")[0]["spec"]["template"]["modelParameters"]["turns"]
    edit = next(call["arguments"] for turn in turns for call in turn.get("toolCalls", []) if call["name"] == "edit")
    module = tmp_path / edit["path"]
    assert module.read_text().count(edit["old"]) == 1
    module.write_text(module.read_text().replace(edit["old"], edit["new"]))
    assert _pytest(tmp_path) == 0
