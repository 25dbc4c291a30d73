"""SQL by name, from the `.sql` files beside this module."""

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def queries(store: str) -> dict[str, str]:
    """Statements of a store (`sqlite` or `postgres`) by name."""
    text = (files("agentrun.journal") / "sql" / f"{store}.sql").read_text()
    parts = _NAME.split(text)[1:]
    return {name: statement.strip().rstrip(";") for name, statement in zip(parts[::2], parts[1::2], strict=True)}


@cache
def migrations(store: str) -> tuple[str, ...]:
    """Migrations of a store in order; the first is version 1."""
    folder = files("agentrun.journal") / "migrations" / store
    return tuple(
        entry.read_text() for entry in sorted(folder.iterdir(), key=lambda e: e.name) if entry.name != "__init__.py"
    )
