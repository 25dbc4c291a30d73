"""Times and ages for people."""

import datetime as dt

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# As kubectl does: below `limit` seconds the age is told in `unit`, with a remainder in `rest` where there is one.
_AGES = (
    (120, 1, "s", 0, ""),
    (600, 60, "m", 1, "s"),
    (3 * 3_600, 60, "m", 0, ""),
    (8 * 3_600, 3_600, "h", 60, "m"),
    (48 * 3_600, 3_600, "h", 0, ""),
    (8 * 86_400, 86_400, "d", 3_600, "h"),
)


def moment(micros: int) -> str:
    """RFC 3339 UTC, to the millisecond, of microseconds since 1970; the number itself where no date is that far."""
    try:
        at = _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        return str(micros)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def age(seconds: float) -> str:
    """As kubectl writes it: `45s`, `9m30s`, `5h10m`, `3d4h`, `45d`. Never negative: clocks differ."""
    whole = max(0, int(seconds))
    for limit, size, unit, rest_size, rest_unit in _AGES:
        if whole < limit:
            rest = whole % size // rest_size if rest_size else 0
            return f"{whole // size}{unit}" + (f"{rest}{rest_unit}" if rest else "")
    return f"{whole // 86_400}d"


def age_since(stamp: object, now: dt.datetime) -> str:
    """Age of an RFC 3339 time; `<unknown>` where there is none."""
    try:
        then = dt.datetime.fromisoformat(str(stamp))
        return age((now - then).total_seconds())
    except (ValueError, TypeError):
        return "<unknown>"
