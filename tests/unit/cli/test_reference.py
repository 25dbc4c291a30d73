"""The page of the verbs is current, and the words come at once (R27)."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.terminal import environment

from agentrun.cli.people import people
from agentrun.cli.reference import reference

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("kubernetes", "pydantic", "httpx2", "yaml", "msgspec", "asyncio")


def test_the_checked_in_page_is_the_generated_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert (ROOT / "docs/reference/cli.md").read_text() == reference(), "run: python -m agentrun.cli.reference"


def test_every_verb_and_option_says_what_it_is_for() -> None:
    for name, command in people.commands.items():
        assert command.help, name
        assert all(getattr(option, "help", "") for option in command.params if option.param_type_name == "option")


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in sorted(people.commands))])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """A shell's completion and a reader's first look wait for it: counted in imports, not in seconds."""
    program = f"""
import sys
from agentrun.cli.main import kubectl_agentrun
sys.argv[1:] = {arguments!r}
try:
    kubectl_agentrun()
finally:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, env=environment())
    assert "Usage: kubectl agentrun" in done.stdout
    assert done.stderr.strip() == "[]"
