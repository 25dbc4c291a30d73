"""`python -m tests.bench [ID …]`: measure the figures asked for (all if none); 0 only when all of them hold."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from tests.bench.figure import Figure, say
from tests.cluster.shell import ClusterError

MODULES = {"P1": "p1", "P4": "p4", "P5": "p5", "RSS": "rss"}


def main(ids: Sequence[str]) -> int:
    """Each figure's last line is its ratio; 2 for an id that does not exist or a figure that could not be measured."""
    unknown = [name for name in ids if name not in MODULES]
    if unknown:
        print(f"bench: no figure {', '.join(unknown)}; there are {', '.join(MODULES)}", file=sys.stderr)
        return 2
    figures = [_measured(name) for name in ids or MODULES]
    if None in figures:
        return 2
    return 0 if all(figure is not None and figure.holds for figure in figures) else 1


def _measured(name: str) -> Figure | None:
    """Imported late: P1 needs no cluster, and the others no database."""
    measure: Callable[[], Figure] = import_module(f"tests.bench.{MODULES[name]}").measure
    try:
        figure = measure()
    except ClusterError as error:
        print(f"bench: {name}: {error}", file=sys.stderr)
        return None
    figure.keep()
    say(figure.line())
    return figure


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
