"""A history that is not what was written is told so, never shown or explained (R4, decision 0004)."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.console_world import DIGEST, MINE, World, running


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """The API with one finished run of 12 events."""
    async with running(tmp_path) as found:
        await found.worked(MINE)
        yield found


def damage(world: World, statement: str) -> None:
    """What somebody does to the database behind everybody's back."""
    with sqlite3.connect(world.path, isolation_level=None) as other:
        other.execute(statement)
    other.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET body = CAST(replace(CAST(body AS TEXT), 'read', 'rexd') AS BLOB) WHERE seq = 1",
        "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",
        "DELETE FROM events",
    ],
    ids=["changed", "end cut off", "all cut off"],
)
async def test_a_history_that_does_not_hold_is_told_so_and_not_explained_R4(world: World, change: str) -> None:
    damage(world, change)
    for rest in ("explain", "artifacts", f"blobs/{DIGEST['patch']}"):
        assert (await world.refused(f"/v1/runs/{MINE}/{rest}", 503))["class"] == "CorruptHistory"


BODY_6 = "UPDATE events SET body = CAST({} AS BLOB) WHERE seq = 6"


@pytest.mark.parametrize(
    "change",
    [BODY_6.format("'no JSON'"), BODY_6.format("replace(CAST(body AS TEXT), 't1', 't2')"),
     "UPDATE events SET fence = fence + 1 WHERE seq = 6", "UPDATE events SET kind = 'ModelFailed' WHERE seq = 6"],
    ids=["no JSON", "another step", "another fence", "another kind"],
)  # fmt: skip
async def test_an_event_that_is_not_what_its_hash_says_is_not_shown_R4(world: World, change: str) -> None:
    damage(world, change)
    for after, limit in ((0, 500), (5, 500), (0, 6)):
        error = await world.refused("/v1/runs/fix/events", 503, after=after, limit=limit)
        assert (error["class"], "event 6 (Model" in error["message"]) == ("CorruptHistory", True)


async def test_what_stands_before_and_behind_a_damaged_event_can_still_be_read_R4(world: World) -> None:
    damage(world, BODY_6.format("'no JSON'"))
    before = await world.read("/v1/runs/fix/events", limit=5)
    behind = await world.read("/v1/runs/fix/events", after=6)
    assert [event["seq"] for event in (*before["items"], *behind["items"])] == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12]


async def test_a_missing_event_is_named_R4(world: World) -> None:
    damage(world, "DELETE FROM events WHERE seq = 6")
    error = await world.refused("/v1/runs/fix/events", 503)
    assert (error["class"], "event 6 is missing" in error["message"]) == ("CorruptHistory", True)
