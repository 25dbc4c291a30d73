"""Entry points. Heavy imports stand inside the commands: `--help` must answer at once."""

from pathlib import Path

import click

from agentrun.cli.people import people

__all__ = ["agentrun", "kubectl_agentrun"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agentrun", message="%(version)s")
def agentrun() -> None:
    """Processes of agentrun. Settings come from AGENTRUN_* variables; see the reference."""


@agentrun.command()
def operator() -> None:
    """Watch the API, record facts, make sandboxes real, write status."""
    from agentrun.cli.roles import start_operator  # noqa: PLC0415

    start_operator()


@agentrun.command()
def harness() -> None:
    """Take runs under lease and do what they call for."""
    from agentrun.cli.roles import start_harness  # noqa: PLC0415

    start_harness()


@agentrun.command()
def broker() -> None:
    """Authorise and sign every dispatch; call models. The only reader of Secrets."""
    from agentrun.cli.roles import start_broker  # noqa: PLC0415

    start_broker()


@agentrun.command()
def console() -> None:
    """Serve the read API over the journal."""
    from agentrun.cli.roles import start_console  # noqa: PLC0415

    start_console()


@agentrun.command()
def serve() -> None:
    """Operator, harness and read API in one process, on SQLite."""
    from agentrun.cli.roles import start_serve  # noqa: PLC0415

    start_serve()


@agentrun.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("crds"), show_default=True)
def crds(out: Path) -> None:
    """Write the CRDs and admission policies."""
    from agentrun.api.crdgen import generate  # noqa: PLC0415

    for path in generate(out):
        click.echo(path)


@agentrun.group()
def journal() -> None:
    """The journal itself."""


@journal.command()
@click.argument("run")
def verify(run: str) -> None:
    """Check every hash of the history of RUN (its UID); names the first event that does not hold."""
    from agentrun.cli.roles import verify_history  # noqa: PLC0415

    verify_history(run)


def kubectl_agentrun() -> None:
    """`kubectl agentrun …`: people's verbs."""
    people(prog_name="kubectl agentrun")


if __name__ == "__main__":
    agentrun()
