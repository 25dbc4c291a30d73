"""People's verbs, as a kubectl plugin."""

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def people() -> None:
    """Run AI agents on Kubernetes, see what they do, stop them."""
