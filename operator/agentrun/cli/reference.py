"""Writes docs/reference/cli.md from the verbs' own help: `python -m agentrun.cli.reference OUT`."""

import sys
from pathlib import Path

import click

from agentrun.cli.outcome import Exit
from agentrun.cli.people import people

PROGRAM = "kubectl agentrun"
_COLUMNS = 100
_MEANINGS = {
    Exit.COMPLETED: "done; with `run --wait` and `watch RUN`: the run completed",
    Exit.ERROR: "error of the command, the API or the read API; said on standard error",
    Exit.USAGE: "wrong usage; nothing was sent",
    Exit.FAILED: "the run failed",
    Exit.BLOCKED: "`run --wait`: the run waits for a person (needs_reconciliation, approval, paused, blocked)",
    Exit.STOPPED: "the run was cancelled or killed",
    Exit.TIMED_OUT: "`run --wait --timeout`: time is up, the run goes on",
    Exit.INTERRUPTED: "interrupted (Ctrl-C); the run goes on",
}
_INTRO = f"""# `{PROGRAM}`

Generated from the verbs' own help; do not edit.

The console script `kubectl-agentrun` is a kubectl plugin: where it is on PATH, `{PROGRAM}` calls it. It acts as the
user of the kubeconfig, with that user's rights and no others.

| verbs | ask | rights |
|---|---|---|
| run, get, watch, cancel, kill, pause, resume | the API server | ClusterRole `agentrun-runner` in the namespace |
| explain, events, artifacts | the read API | the same, and Role `agentrun-read` in the operator's namespace |

A missing right is named by the error, with the command by which an admin grants it. Text of models, tools and users is
made safe for terminals: what would steer or hide (control characters, escape sequences, bidi marks, zero width) is
shown as an escape like `\\x1b`. `-o json` and `-o yaml` hold the same data unchanged, under their own escapes.
"""


def reference() -> str:
    """The whole page as Markdown."""
    codes = [f"| {code.value} | {meaning} |" for code, meaning in _MEANINGS.items()]
    table = "\n".join(["## Exit codes", "", "| code | meaning |", "|---|---|", *codes, ""])
    top = _context(people, PROGRAM, None)
    names = people.list_commands(top)
    return "\n".join([_INTRO, table, _section(people, top), *(_verb(name, top) for name in names)])


def _verb(name: str, top: click.Context) -> str:
    command = people.commands[name]
    return _section(command, _context(command, name, top))


def _section(command: click.Command, context: click.Context) -> str:
    return f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    """Of a fixed width: the page must not depend on who generates it."""
    return click.Context(command, info_name=name, parent=parent, terminal_width=_COLUMNS, **command.context_settings)


def main(out: Path) -> None:
    """Write the page."""
    out.write_text(reference())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference/cli.md"))
