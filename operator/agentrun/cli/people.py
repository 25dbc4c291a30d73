"""People's verbs, as a kubectl plugin: their words and options. What they do is imported when one runs."""

import click

from agentrun.cli.options import Seconds, connection, output

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=CONTEXT)
@connection
def people() -> None:
    """Run AI agents on Kubernetes, see what they do, stop them."""


@people.command()
@click.argument("definition")
@click.option("--name", metavar="NAME", help="Name of the run; else one is generated from the definition's.")
@click.option("--text", metavar="TEXT", help="The task, as the first message; `-` reads standard input.")
@click.option("--parameter", "parameters", multiple=True, metavar="NAME=JSON", help="A parameter; repeat for more.")
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="PATH[=LOCAL]",
    help="A text file for the workspace, read from LOCAL; repeat for more.",
)
@click.option("--budget", multiple=True, metavar="LIMIT=N", help="A limit, like modelCalls=20; repeat for more.")
@click.option("--wait", is_flag=True, help="Stay until the run is finished or waits for a person.")
@click.option("--timeout", type=Seconds(), metavar="DURATION", help="With --wait: give up after 90s, 5m, 1h30m.")
@output("json", "name")
@connection
def run(
    definition: str,
    name: str | None,
    text: str | None,
    parameters: tuple[str, ...],
    files: tuple[str, ...],
    budget: tuple[str, ...],
    *,
    wait: bool,
    timeout: float | None,
    form: str | None,
) -> None:
    """Create a run of DEFINITION.

    Exit codes with --wait: 0 completed, 1 error of the command or the API, 2 wrong usage, 3 failed,
    4 waits for a person (needs_reconciliation, an approval, paused, blocked), 5 cancelled or killed,
    124 timed out. An interrupt leaves the run alone.
    """
    from agentrun.cli.newrun import Wish  # noqa: PLC0415
    from agentrun.cli.session import run_verb  # noqa: PLC0415
    from agentrun.cli.waiting import start_run  # noqa: PLC0415

    if timeout is not None and not wait:
        raise click.UsageError("--timeout belongs to --wait: give both")
    wish = Wish(definition, name, text, parameters, files, budget)
    run_verb(start_run(wish, wait=wait, timeout=timeout, form=form))


@people.command()
@click.argument("run", required=False)
@output("json", "yaml", "name")
@connection
def get(run: str | None, form: str | None) -> None:
    """Show RUN, or every run of the namespace."""
    from agentrun.cli.objects import get_runs  # noqa: PLC0415
    from agentrun.cli.session import run_verb  # noqa: PLC0415

    run_verb(get_runs(run, form))


@people.command()
@click.argument("run")
@click.option("--message", metavar="TEXT", help="Why, for people; stays with the run.")
@connection
def cancel(run: str, message: str | None) -> None:
    """End RUN in order: nothing new is begun, what runs is stopped."""
    from agentrun.cli.control import control_run  # noqa: PLC0415
    from agentrun.cli.session import run_verb  # noqa: PLC0415

    run_verb(control_run("cancel", run, message))


@people.command()
@click.argument("run")
@click.option("--message", metavar="TEXT", help="Why, for people; stays with the run.")
@connection
def kill(run: str, message: str | None) -> None:
    """End RUN at once, with its sandbox. No roll-back: what it did outside stays done."""
    from agentrun.cli.control import control_run  # noqa: PLC0415
    from agentrun.cli.session import run_verb  # noqa: PLC0415

    run_verb(control_run("kill", run, message))


@people.command()
@click.argument("run")
@connection
def pause(run: str) -> None:
    """Begin nothing new in RUN; calls in flight may still end."""
    from agentrun.cli.control import control_run  # noqa: PLC0415
    from agentrun.cli.session import run_verb  # noqa: PLC0415

    run_verb(control_run("pause", run))


@people.command()
@click.argument("run")
@connection
def resume(run: str) -> None:
    """Let a paused RUN go on."""
    from agentrun.cli.control import control_run  # noqa: PLC0415
    from agentrun.cli.session import run_verb  # noqa: PLC0415

    run_verb(control_run("resume", run))


@people.command()
@click.argument("run", required=False)
@connection
def watch(run: str | None) -> None:
    """Show each change of RUN until it is finished; without RUN of all runs of the namespace.

    With RUN the exit code tells the outcome, as for `run --wait`; a run that waits for a person is
    waited for. Without RUN it goes on until it is interrupted.
    """
    from agentrun.cli.session import run_verb  # noqa: PLC0415
    from agentrun.cli.waiting import watch_runs  # noqa: PLC0415

    run_verb(watch_runs(run))


@people.command()
@click.argument("run")
@output("json")
@connection
def explain(run: str, form: str | None) -> None:
    """Answer the seven questions about RUN (a name or UID), from the journal alone.

    Identity, state, authority, effects, control, limits, recovery. A finished or deleted run answers too.
    """
    from agentrun.cli.reading import explain_run  # noqa: PLC0415
    from agentrun.cli.session import run_verb  # noqa: PLC0415

    run_verb(explain_run(run, form))


@people.command()
@click.argument("run")
@click.option("--follow", is_flag=True, help="Go on until the run is finished.")
@output("json")
@connection
def events(run: str, form: str | None, *, follow: bool) -> None:
    """Show what the journal holds of RUN (a name or UID), one line per event.

    With -o json each line is an event with its whole body.
    """
    from agentrun.cli.reading import show_events  # noqa: PLC0415
    from agentrun.cli.session import run_verb  # noqa: PLC0415

    run_verb(show_events(run, form, follow=follow))


@people.command()
@click.argument("run")
@click.argument("name", required=False)
@click.option("--output", "target", type=click.Path(dir_okay=False), metavar="FILE", help="Write NAME to FILE.")
@connection
def artifacts(run: str, name: str | None, target: str | None) -> None:
    """List the artifacts of RUN (a name or UID), or fetch the one called NAME.

    Its bytes are digested again; where they are not the ones the journal names, nothing is written.
    """
    from pathlib import Path  # noqa: PLC0415

    from agentrun.cli.reading import fetch_artifact, list_artifacts  # noqa: PLC0415
    from agentrun.cli.session import run_verb  # noqa: PLC0415

    if name is None:
        if target is not None:
            raise click.UsageError("--output writes one artifact: give its NAME too")
        run_verb(list_artifacts(run))
    else:
        run_verb(fetch_artifact(run, name, Path(target) if target else None))
