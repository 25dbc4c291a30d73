"""Options that the verbs share. kubectl takes `-n` before and after the verb; so do these."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])
_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Seconds(click.ParamType[float]):
    """`90`, `90s`, `5m`, `1h30m` -> seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Fails on anything else."""
        if isinstance(value, float):
            return value
        import re  # noqa: PLC0415 - one verb needs it

        parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|)", str(value))
        if not parts or "".join(number + unit for number, unit in parts) != value:
            self.fail(f"{value!r} is no duration: write 90s, 5m or 1h30m", param, ctx)
        return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _remember(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """The option after the verb wins over the one before it."""
    if value is not None:
        context.ensure_object(dict)[str(parameter.name)] = value


def connection(command: _Command) -> _Command:
    """--kubeconfig, --context, -n, --operator-namespace; read by `agentrun.cli.session`."""
    for option in reversed(_CONNECTION):
        command = option(command)
    return command


def _kept(*names: str, **attributes: Any) -> Callable[[_Command], _Command]:
    return click.option(*names, expose_value=False, callback=_remember, **attributes)


_CONNECTION = (
    _kept("-n", "--namespace", metavar="NAMESPACE", help="Namespace of the run; else the context's."),
    _kept("--kubeconfig", metavar="FILE", help="kubeconfig to use; else KUBECONFIG, else ~/.kube/config."),
    _kept("--context", metavar="CONTEXT", help="Context of the kubeconfig; else its current one."),
    _kept(
        "--operator-namespace",
        metavar="NAMESPACE",
        envvar="AGENTRUN_OPERATOR_NAMESPACE",
        help="Where the read API is; else AGENTRUN_OPERATOR_NAMESPACE, else agentrun-system.",
    ),
)


def output(*formats: str) -> Callable[[_Command], _Command]:
    """-o with the formats a verb knows; None is the text for people."""
    return click.option("-o", "--output", "form", type=click.Choice(formats), help="Format; else text for people.")
