"""Due times and expected ends as people read them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from radrm.cli.show.card import card, explanation
from radrm.cli.show.jobs import job_rows
from radrm.client.amounts import clock, due_text, span, starts_in
from radrm.client.words.jobs import advance
from radrm.client.words.reasons import outlook
from tests.cli.fakes import ESC, job, shown

NOW = datetime.fromisoformat("2026-11-23T14:00:00+01:00").timestamp()
"""A Monday."""
MINUTE, HOUR = 60.0, 3600.0


@pytest.fixture(autouse=True)
def berlin(zone: Callable[[str], None]) -> None:
    zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-11-23T18:00:59+01:00", "18:00"),
        ("2026-11-23T00:00:00+01:00", "0:00"),
        ("2026-11-24T09:05:00+01:00", "tomorrow 9:05"),
        ("2026-11-25T00:00:00+01:00", "wed 0:00"),
        ("2026-11-29T23:59:00+01:00", "sun 23:59"),
        ("2026-11-30T09:00:00+01:00", "2026-11-30 9:00"),
        ("2026-11-22T18:00:00+01:00", "2026-11-22 18:00"),
        ("2030-07-31T18:00:00+02:00", "2030-07-31 18:00"),
    ],
)
def test_a_time_near_now_is_short(text: str, wanted: str) -> None:
    assert clock(datetime.fromisoformat(text).timestamp(), NOW) == wanted


@pytest.mark.parametrize(
    ("now", "then"),
    [
        ("2026-12-31T23:00:00+01:00", "2027-01-01T00:10:00+01:00"),
        ("2028-02-28T23:00:00+01:00", "2028-02-29T00:10:00+01:00"),
        ("2026-02-28T23:00:00+01:00", "2026-03-01T00:10:00+01:00"),
        ("2026-10-24T23:00:00+02:00", "2026-10-25T23:50:00+01:00"),
        ("2026-03-28T23:59:00+01:00", "2026-03-29T23:50:00+02:00"),
    ],
)
def test_tomorrow_is_the_next_day_of_the_calendar(now: str, then: str) -> None:
    now_s, then_s = (datetime.fromisoformat(each).timestamp() for each in (now, then))
    assert clock(then_s, now_s).startswith("tomorrow ")
    assert not clock(now_s, then_s).startswith("tomorrow ")


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [(45, "45s"), (60, "1m"), (2400, "40m"), (3599, "59m"), (3900, "1h05m"), (300_000, "3d11h")],
)
def test_a_span_is_rough(seconds: float, wanted: str) -> None:
    assert span(seconds) == wanted


def due(after_s: float, late_s: float | None = None, **fields: Any) -> dict[str, Any]:
    return {"due_at": NOW + after_s, "late_s": late_s, "weight": 1.0, "cost": None, **fields}


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, ""),
        ({"due_at": None, "late_s": None}, ""),
        (due(4 * HOUR), "18:00"),
        (due(4 * HOUR, 0.0), "18:00"),
        (due(4 * HOUR, 40 * MINUTE), "18:00, late 40m"),
        (due(-HOUR, HOUR), "late 1h00m"),
        (due(-HOUR, 0.0), "13:00"),
        (due(-HOUR, 0.5), "13:00"),
    ],
)
def test_the_due_column(fields: dict[str, Any], wanted: str) -> None:
    found = job(1, "RUNNING", **fields)
    assert due_text(found, NOW) == wanted
    header, row = (" ".join(line.split()) for line in shown(job_rows([found], {}, NOW), 200))
    assert (" DUE " in header) is bool(wanted)
    assert wanted in row
    both = shown(job_rows([found, job(2)], {}, NOW), 200)
    assert not wanted or " -" in both[2]


def test_time_left_is_only_that_of_a_job_that_runs() -> None:
    fields = {"progress": {"work_done": 0.5}, "expected_end_at": NOW + HOUR}
    assert advance(job(1, "RUNNING", **fields), NOW) == "50 %, 1h00m left"
    assert advance(job(1, "PENDING", **fields), NOW) == "50 %"
    limited = job(1, "RUNNING", **fields, expected_source="time limit")
    assert advance(limited, NOW) == "50 %, 1h00m to its time limit"


EXPECTED = {"expected_end_at": NOW + 4 * HOUR + 40 * MINUTE, "latest_end_at": NOW + 5.5 * HOUR}
EXPECTED |= {"expected_source": "history", "expected_unknown": None}
UNKNOWN = {"expected_end_at": None, "latest_end_at": None, "expected_unknown": "it is held"}


@pytest.mark.parametrize(
    ("state", "fields", "wanted"),
    [
        (
            "PENDING",
            EXPECTED | due(4 * HOUR, 40 * MINUTE) | {"expected_start_at": NOW + 20 * MINUTE},
            "expected 14:20 to 18:40 (at worst 19:30, by history); due 18:00: late by 40m",
        ),
        (
            "RUNNING",
            EXPECTED | {"started_at": NOW - HOUR, "expected_source": "declared"},
            "expected 13:00 to 18:40 (at worst 19:30, declared)",
        ),
        ("RUNNING", EXPECTED | due(6 * HOUR, 0.0) | {"started_at": NOW, "latest_end_at": None},
         "expected 14:00 to 18:40 (by history); due 20:00: in time"),
        (
            "PENDING",
            UNKNOWN | due(6 * HOUR) | {"needs_s": 2 * HOUR},
            "cannot say when it ends: it is held; due 20:00: it must start before 18:00",
        ),
        (
            "RUNNING",
            UNKNOWN | due(HOUR, latest_end_at=NOW + HOUR, expected_unknown=f"it{ESC}"),
            "cannot say when it ends: it",
        ),
        ("RUNNING", UNKNOWN | due(-HOUR, HOUR), "cannot say when it ends: it is held; due 13:00: "
         "late by at least 1h00m"),
        ("COMPLETED", due(-HOUR, 60.0), "due 13:00: late by 1m"),
        ("COMPLETED", due(-HOUR, 0.0), "due 13:00: in time"),
        ("COMPLETED", {}, ""),
        ("RUNNING", UNKNOWN, ""),
        ("PENDING", {}, ""),
    ],
)  # fmt: skip
def test_the_outlook_of_a_job(state: str, fields: dict[str, Any], wanted: str) -> None:
    found = job(1, state, **fields)
    said = outlook(found, NOW)
    assert said.startswith(wanted) and (wanted or not said)
    empty = {"summary": None, "reasons": [], "devices": [], "ahead": None, "attempts": []}
    lines = shown(explanation({"job": found, "now": NOW, **empty}), 200)
    assert any(line.strip().startswith(wanted) for line in lines)
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("state", "fields", "wanted"),
    [
        ("RUNNING", due(HOUR), "(in 1h00m)"),
        ("RUNNING", due(HOUR, 0.0) | EXPECTED, "(in 1h00m), expected in time"),
        (
            "RUNNING",
            due(HOUR, 2 * HOUR, weight=3.0, cost=6.0) | EXPECTED,
            "(in 1h00m), expected to be late by 2h00m, which costs 6.00 (weight 3)",
        ),
        (
            "RUNNING",
            due(-HOUR, HOUR, cost=1.0) | UNKNOWN,
            "ago), late by at least 1h00m, which costs 1.00",
        ),
        ("COMPLETED", due(-HOUR, HOUR, cost=1.0), "ago), late by 1h00m, which costs 1.00"),
        ("COMPLETED", due(-HOUR, 0.0, cost=0.0), "ago), in time"),
    ],
)
def test_the_card_says_what_being_late_costs(
    state: str, fields: dict[str, Any], wanted: str
) -> None:
    text = [line for part in card(job(1, state, **fields), NOW, {}) for line in shown(part, 160)]
    (line,) = [line for line in text if line.startswith("  due ")]
    assert line.endswith(wanted)


def test_a_job_that_waits_for_its_moment_says_when_it_begins() -> None:
    waits = job(
        *(1, "PENDING"),
        begin_at=NOW + 4 * HOUR,
        reason="it begins in 4h00m",
        way_out=["radrm edit 1 --begin=none"],
    )
    assert shown(job_rows([waits], {}, NOW))[1].endswith("  Begins at 18:00.")
    its = "\n".join(shown(card(waits, NOW, {})))
    assert "Begins at 18:00.\n" in its and "radrm edit 1 --begin=none" in its
    answer = {"job": waits, "now": NOW, "attempts": [], "reasons": [], "devices": [], "ahead": None}
    said = "\n".join(shown(explanation({**answer, "summary": waits["reason"]})))
    assert "Begins at 18:00 (in 4h00m); until then others pass it." in said
    held = job(1, "PENDING", begin_at=NOW + HOUR, reason="it is held", held=True)
    assert "egins" not in "\n".join(shown(job_rows([held], {}, NOW)))


@pytest.mark.parametrize(
    ("start_s", "latest_s", "text"),
    [
        (1200.0, 2400.0, "in 20-40m (est.)"),
        (1200.0, 1210.0, "in 20m (est.)"),
        (1200.0, None, "in 20m or later (est.)"),
        (3000.0, 7200.0, "in 50m-2h00m (est.)"),
        (-5.0, 10.0, "in 0-10s (est.)"),
        (None, 19_920.0, "at the latest in 5h32m"),
        (None, None, ""),
    ],
)
def test_the_expected_start_is_a_range(
    start_s: float | None, latest_s: float | None, text: str
) -> None:
    times = {"expected_start_at": start_s, "latest_start_at": latest_s}
    waiting = job(1, "PENDING", **{k: None if t is None else NOW + t for k, t in times.items()})
    assert starts_in(waiting, NOW) == text
    assert starts_in(waiting | {"state": "RUNNING"}, NOW) == ""
    row = job_rows([waiting], {}, NOW).plain_lines()[1]
    assert row.endswith(f"Starts {text}." if text else "") and ("(est.)" in row) is (
        start_s is not None
    )
