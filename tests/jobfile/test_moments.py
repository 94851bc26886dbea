"""Times as users write them: every form, summer time, and what is refused."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import UsageError
from radrm.host.storage.submission import here, local_offset_s
from radrm.jobfile.moments import Here, absolute, read, refuse_past
from radrm.jobfile.parsing import dated

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
ZONES = (
    BERLIN,
    NEW_YORK,
    ZoneInfo("UTC"),
    ZoneInfo("Asia/Kathmandu"),
    ZoneInfo("Australia/Sydney"),
)


def at(zone: ZoneInfo, now: str) -> Here:
    """Somebody in a zone, at a local time there."""

    def offset_s(wall_s: float) -> float:
        offset = datetime.fromtimestamp(wall_s, zone).utcoffset()
        return offset.total_seconds()

    return Here(datetime.fromisoformat(now).replace(tzinfo=zone).timestamp(), offset_s)


# Monday, 12 January 2026
WINTER = at(BERLIN, "2026-01-12T10:30:15")

TABLE = [
    (WINTER, "2030-01-31T18:00", "2030-01-31T18:00:00+01:00"),
    (WINTER, "2030-01-31 18:00", "2030-01-31T18:00:00+01:00"),
    (WINTER, " 2030-01-31   18:00:59 ", "2030-01-31T18:00:59+01:00"),
    (WINTER, "2030-07-31T18:00", "2030-07-31T18:00:00+02:00"),
    (WINTER, "2030-01-31T18:00Z", "2030-01-31T18:00:00+00:00"),
    (WINTER, "2030-01-31t18:00-0530", "2030-01-31T18:00:00-05:30"),
    (WINTER, "2030-01-31T18:00+05:45", "2030-01-31T18:00:00+05:45"),
    (WINTER, "18:00", "2026-01-12T18:00:00+01:00"),
    (WINTER, "10:30", "2026-01-13T10:30:00+01:00"),
    (WINTER, "10:30:15", "2026-01-13T10:30:15+01:00"),
    (WINTER, "10:30:16", "2026-01-12T10:30:16+01:00"),
    (WINTER, "0:00", "2026-01-13T00:00:00+01:00"),
    (WINTER, "today 9:00", "2026-01-12T09:00:00+01:00"),
    (WINTER, "tomorrow 9:00", "2026-01-13T09:00:00+01:00"),
    (WINTER, "Fri 9:00", "2026-01-16T09:00:00+01:00"),
    (WINTER, "friday 09:00", "2026-01-16T09:00:00+01:00"),
    (WINTER, "mon 9:00", "2026-01-19T09:00:00+01:00"),
    (WINTER, "mon 11:00", "2026-01-12T11:00:00+01:00"),
    (WINTER, "sun 0:00", "2026-01-18T00:00:00+01:00"),
    (WINTER, "+90m", "2026-01-12T12:00:15+01:00"),
    (WINTER, "+ 1d 2h", "2026-01-13T12:30:15+01:00"),
    (WINTER, "+1:30:00", "2026-01-12T12:00:15+01:00"),
    (WINTER, "+90", "2026-01-12T10:31:45+01:00"),
    (WINTER, "+0.5s", "2026-01-12T10:30:16+01:00"),
    (WINTER, "none", "none"),
    # The last Sunday of March: at 2:00 it is 3:00.
    (at(BERLIN, "2026-03-28T22:00"), "tomorrow 2:30", "2026-03-29T03:30:00+02:00"),
    (at(BERLIN, "2026-03-28T22:00"), "2:30", "2026-03-29T03:30:00+02:00"),
    (at(BERLIN, "2026-03-28T22:00"), "2026-03-29T02:00", "2026-03-29T03:00:00+02:00"),
    (at(BERLIN, "2026-03-28T22:00"), "1:59", "2026-03-29T01:59:00+01:00"),
    (at(BERLIN, "2026-03-28T22:00"), "3:00", "2026-03-29T03:00:00+02:00"),
    (at(BERLIN, "2026-03-28T22:00"), "+8h", "2026-03-29T07:00:00+02:00"),
    (at(BERLIN, "2026-03-28T22:00"), "sun 9:00", "2026-03-29T09:00:00+02:00"),
    (at(BERLIN, "2026-03-29T00:30"), "tomorrow 0:15", "2026-03-30T00:15:00+02:00"),
    # The last Sunday of October: at 3:00 it is 2:00 again.
    (at(BERLIN, "2026-10-24T22:00"), "tomorrow 2:30", "2026-10-25T02:30:00+02:00"),
    (at(BERLIN, "2026-10-24T22:00"), "2026-10-25T02:30+01:00", "2026-10-25T02:30:00+01:00"),
    (at(BERLIN, "2026-10-25T02:40"), "2:30", "2026-10-25T02:30:00+01:00"),
    (at(BERLIN, "2026-10-25T02:40"), "+30m", "2026-10-25T02:10:00+01:00"),
    (at(BERLIN, "2026-10-25T04:00"), "2:30", "2026-10-26T02:30:00+01:00"),
    (at(BERLIN, "2026-10-24T23:50"), "tomorrow 23:55", "2026-10-25T23:55:00+01:00"),
    (at(NEW_YORK, "2026-03-07T20:00"), "2:15", "2026-03-08T03:15:00-04:00"),
    (at(NEW_YORK, "2026-10-31T20:00"), "tomorrow 1:15", "2026-11-01T01:15:00-04:00"),
    (at(NEW_YORK, "2026-11-01T01:20"), "1:15", "2026-11-01T01:15:00-05:00"),
    (at(NEW_YORK, "2026-12-31T20:00"), "tomorrow 1:15", "2027-01-01T01:15:00-05:00"),
]  # fmt: skip


def test_every_form() -> None:
    for here_now, text, wanted in TABLE:
        assert absolute(text, here_now) == wanted, text


BAD = [
    ("tomorrow 25:00", "is not a time of day"),
    ("9:60", "is not a time of day"),
    ("9:00:60", "is not a time of day"),
    ("24:00", "is not a time of day"),
    ("fri", "has no time of day"),
    ("2030-01-31", "has no time of day"),
    ("2030-02-30T10:00", "is not a date of the calendar"),
    ("0000-01-01T10:00", "is not a date of the calendar"),
    ("1960-01-01T10:00", "is not in the years 1970 to 9999"),
    ("9999-12-31T23:00-05:00", "is not in the years 1970 to 9999"),
    ("2030-01-31T10:00+24:00", "has no offset"),
    ("someday 9:00", "'someday' is not a day"),
    ("soon", "is not a time;"),
    ("18", "is not a time;"),
    ("", "is not a time;"),
    ("-90m", "is not a time;"),
    ("+", "is not a time from now"),
    ("+0m", "is not a time from now"),
    ("+-1h", "is not a time from now"),
    ("+nan", "is not a time from now"),
    ("+99999d", "more than ten years"),
    ("１８:00", "is not a time;"),
    ("18:00\x1b[31m", "is not a time;"),
    ("9" * 5000, "is not a time;"),
    ("+" + "9" * 38, "more than ten years"),
]


def test_what_is_refused_is_named_with_an_example() -> None:
    for text, why in BAD:
        with pytest.raises(UsageError) as caught:
            dated({"due": text}, WINTER, "job.rad")
        message = str(caught.value)
        assert message.startswith("job.rad: --due: ") and why in message, text
        assert "write 2030-01-31T18:00, 18:00, " in message, text
        assert message.isprintable() and len(message) < 200, text


@pytest.mark.parametrize("text", ["today 9:00", "2026-01-12T10:30:15", "2026-01-12T10:00+01:00"])
def test_a_time_that_is_over_is_refused_where_it_is_typed(text: str) -> None:
    with pytest.raises(UsageError, match=r"is over: now it is 2026-01-12T10:30:15\+01:00;"):
        dated({"due": text}, WINTER, "command line")
    assert dated({"due": text}, WINTER, "job.rad", past=True)["due"] == absolute(text, WINTER)


def test_other_options_stay_as_they_are() -> None:
    raw = {"name": "18:00", "env": ["A=tomorrow 9:00"], "due": "none"}
    assert dated(raw, WINTER, "here") == raw


# ------------------------------------------------------------------ properties

moments_s = st.integers(1_600_000_000, 2_200_000_000)
clocks = st.builds("{}:{:02}".format, st.integers(0, 23), st.integers(0, 59))
days = st.sampled_from(
    ["", "today ", "tomorrow ", "mon ", "tue ", "wed ", "thu ", "fri ", "sat ", "sun "]
)


@given(st.sampled_from(ZONES), moments_s, days, clocks)
def test_a_resolved_time_means_the_same_everywhere(
    zone: ZoneInfo, now_s: int, day: str, clock: str
) -> None:
    mine = Here(float(now_s), at(zone, "2026-01-01").offset_s)
    text = absolute(day + clock, mine)
    found = read(text)
    assert found.absolute_s == datetime.fromisoformat(text).timestamp()
    for other in (at(NEW_YORK, "2031-05-05"), at(BERLIN, "2026-10-25T02:30")):
        assert read(absolute(text, other)).absolute_s == found.absolute_s
    assert absolute(text, mine) == text


@given(st.sampled_from(ZONES), moments_s, days, clocks)
def test_a_time_has_the_clock_and_the_day_that_was_typed(
    zone: ZoneInfo, now_s: int, day: str, clock: str
) -> None:
    now = datetime.fromtimestamp(now_s, zone)
    found = datetime.fromtimestamp(
        read(day + clock).at(Here(now_s, at(zone, "2026-01-01").offset_s)), zone
    )
    hour, minute = map(int, clock.split(":"))
    gap = timedelta(hours=found.hour, minutes=found.minute) - timedelta(hours=hour, minutes=minute)
    if gap:  # the local clock never shows that time: it goes forward by an hour
        assert (
            gap == timedelta(hours=1)
            and found.utcoffset() != (found - timedelta(hours=3)).utcoffset()
        )
    if day == "today ":
        assert found.date() == now.date()
    elif day == "tomorrow ":
        assert found.date() == now.date() + timedelta(days=1)
    else:
        assert found > now
        assert found.date() - now.date() <= timedelta(days=7 if day else 1)
        assert not day or found.strftime("%a").lower() == day.strip()


# ------------------------------------------------------------------ the zone of this process


@contextmanager
def zone_of_process(name: str) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_the_zone_is_that_of_the_submitter(zone: str) -> None:
    known = at(ZoneInfo(zone), "2026-01-01").offset_s
    with zone_of_process(zone):
        summer_s = datetime(2026, 7, 1, tzinfo=ZoneInfo(zone)).timestamp()
        assert local_offset_s(summer_s) == known(summer_s) != known(0.0) == local_offset_s(0.0)
        assert absolute("18:00", here(summer_s)) == absolute("18:00", Here(summer_s, known))


@pytest.mark.parametrize("wall_s", [-1e15, 1e15, float("inf")])
def test_no_clock_is_too_far_away(wall_s: float) -> None:
    assert -86_400 < local_offset_s(wall_s) < 86_400
    with pytest.raises(ValueError, match="years 1970 to 9999"):
        absolute("+1h", here(wall_s))


def test_a_moment_is_over_at_its_second() -> None:
    refuse_past("2026-01-12T10:30:16", WINTER)
    with pytest.raises(ValueError, match="is over"):
        refuse_past("2026-01-12T10:30:15", WINTER)
