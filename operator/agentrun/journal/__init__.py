"""The journal: what happened, durably, in order, checked. `open_journal(url)` for the store of a URL."""

from pathlib import Path

from agentrun.journal.port import Journal


async def open_journal(url: str) -> Journal:
    """`sqlite:///absolute/path` or `postgresql://…`; raises ValueError naming the setting for anything else."""
    if url.startswith("sqlite:///"):
        from agentrun.journal.sqlite import SqliteJournal  # noqa: PLC0415 - only the driver that is used is loaded

        return SqliteJournal.open(Path(url.removeprefix("sqlite://")))
    if url.startswith(("postgresql://", "postgres://")):
        from agentrun.journal.postgres import PostgresJournal  # noqa: PLC0415

        return await PostgresJournal.open(url)
    raise ValueError(f"journal URL {url!r}: it must be sqlite:///absolute/path or postgresql://user@host/database")
