"""The date is read whatever it is."""

from __future__ import annotations

import logging
import time

import pytest

from radrm.host.clock import Clock
from radrm.host.storage.submission import here
from radrm.host.storage.tickets import new_ticket
from radrm.host.wall import LAST_S, stand_in_for_time, wall_s

BEYOND_2262_S = 9.8e9


def at(patched: pytest.MonkeyPatch, date_s: float) -> None:
    real = time.clock_gettime
    clocks = {time.CLOCK_REALTIME: lambda: date_s}
    patched.setattr("time.clock_gettime", lambda clock: clocks.get(clock, lambda: real(clock))())


@pytest.mark.parametrize(
    ("clock_s", "read_s"), [(BEYOND_2262_S, BEYOND_2262_S), (-5.0, 0.0), (1e18, LAST_S)]
)
def test_a_date_is_one_that_calendars_know(
    clock_s: float, read_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, clock_s)
    assert wall_s() == read_s
    assert here().now_s == read_s
    now = Clock().now()
    assert now.wall_s == pytest.approx(read_s, abs=1.0)
    time.localtime(now.wall_s)


def test_tickets_sort_by_time_beyond_2262(monkeypatch: pytest.MonkeyPatch) -> None:
    today = new_ticket()
    at(monkeypatch, BEYOND_2262_S)
    assert new_ticket() > today


def test_the_log_is_written_beyond_2262(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("time", "time_ns"):  # as they are, once the test is over
        monkeypatch.setattr(time, name, getattr(time, name))
    stand_in_for_time()
    at(monkeypatch, BEYOND_2262_S)
    record = logging.makeLogRecord({"msg": "hello"})
    assert "2280" in logging.Formatter("%(asctime)s %(message)s").format(record)
