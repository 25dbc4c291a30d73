"""cancel, kill, pause, resume (R9): a decision on the run as it stands, then one patch of its spec by the caller."""

from dataclasses import dataclass
from typing import Any, Literal, assert_never

import click

from agentrun.cli.objects import find_run, full_name
from agentrun.cli.outcome import finished
from agentrun.cli.session import session
from agentrun.cli.writes import patch_spec
from agentrun.kube.reading import member
from agentrun.render.text import line

Object = dict[str, Any]
Verb = Literal["cancel", "kill", "pause", "resume"]
_GOING_ON = {"Cancel": "being cancelled", "Kill": "being killed"}


@dataclass(frozen=True)
class Act:
    """What to merge into the spec (None: nothing, the verb would have no effect) and what to tell the caller."""

    spec: Object | None
    says: str


def decide(verb: Verb, run: Object, message: str | None = None) -> Act:
    """What a verb does to a run as it stands. Pure."""
    name = str(run["metadata"]["name"])
    if finished(run) is not None:
        status = member(run, "status")
        return Act(None, f"is finished already ({status.get('state')}, {status.get('reason')}): nothing to {verb}")
    match verb:
        case "cancel":
            return _stop("Cancel", run, message, f"cancel requested; `kubectl agentrun watch {name}` shows it end")
        case "kill":
            return _stop("Kill", run, message, "kill requested: its sandbox is ended, what it did stays done")
        case "pause":
            return _mode("Paused", run, "pause requested: nothing new is begun, calls in flight may still end")
        case "resume":
            return _mode("Active", run, "resumed")
        case _:
            assert_never(verb)


def _stop(mode: str, run: Object, message: str | None, says: str) -> Act:
    now = _stopping(run)
    if now in (mode, "Kill"):
        return Act(None, f"is {_GOING_ON[now]} already: nothing changed")
    return Act({"stop": {"mode": mode, **({"message": message} if message is not None else {})}}, says)


def _stopping(run: Object) -> str:
    return str(member(member(run, "spec"), "stop").get("mode", ""))


def _mode(mode: str, run: Object, says: str) -> Act:
    if _stopping(run):
        verb = "pause" if mode == "Paused" else "resume"
        return Act(None, f"is {_GOING_ON[_stopping(run)]}: {verb} has no effect any more")
    now = member(run, "spec").get("operatingMode") or "Active"
    if now != mode:
        return Act({"operatingMode": mode}, says)
    return Act(None, "is paused already: nothing changed" if mode == "Paused" else _not_resumable(run))


def _not_resumable(run: Object) -> str:
    """Nobody paused it; where it stands still, say what would move it."""
    status = member(run, "status")
    if status.get("state") == "paused" and status.get("reason") == "BudgetExhausted":
        return "is not paused by a person: its budget is exhausted; add to it with an entry in spec.topUps"
    return "is not paused: nothing changed"


async def control_run(verb: Verb, name: str, message: str | None = None) -> int:
    """Raises Refused. A verb without effect says so and succeeds."""
    async with session() as opened:
        run = await find_run(opened, name)
        act = decide(verb, run, message)
        if act.spec is not None:
            await patch_spec(opened, run, act.spec)
        click.echo(f"{full_name(run)} {line(act.says)}")
    return 0
