"""Times and ages, as kubectl writes them."""

import datetime as dt

import pytest

from agentrun.render.moments import age, age_since, moment


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (570, "9m30s"), (3600, "60m"), (4 * 3600 + 300, "4h5m"),
     (30 * 3600, "30h"), (3 * 86_400 + 4 * 3600, "3d4h"), (45 * 86_400, "45d")],
)  # fmt: skip
def test_ages_are_told_as_kubectl_tells_them(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_the_age_of_a_time_and_of_none() -> None:
    now = dt.datetime(2026, 1, 1, 0, 1, tzinfo=dt.UTC)
    assert age_since("2026-01-01T00:00:00Z", now) == "60s"
    assert age_since(None, now) == "<unknown>"
    assert age_since("2026-01-01T00:00:00", now) == "<unknown>"


def test_moments_are_utc_and_a_number_that_is_no_date_stays_a_number() -> None:
    assert moment(1_500_000) == "1970-01-01T00:00:01.500Z"
    assert moment(10**30) == str(10**30)
