"""`sacct`: which jobs it shows."""

from __future__ import annotations

import time

import pytest

from radrm.errors import UsageError
from radrm.slurm.commands.accounting import _moment, sacct
from radrm.slurm.commands.shown import exit_code
from radrm.slurm.commands.shown import time as written

NOW_S = time.mktime((2026, 11, 29, 14, 30, 0, 0, 0, -1))


@pytest.mark.parametrize(
    ("text", "before_s"),
    [
        ("now", 0), ("now-2hours", 7200), ("now-1days", 86_400), ("today", 52_200),
        ("2026-11-28", 52_200 + 86_400), ("2026-11-29T14:00", 1800), ("11/29", 52_200),
    ],
)  # fmt: skip
def test_moments(text: str, before_s: float) -> None:
    assert NOW_S - _moment(text, NOW_S) == before_s


def test_a_leap_day_needs_no_year() -> None:
    leap_day_s = time.mktime((2028, 2, 29, 0, 0, 0, 0, 0, -1))
    assert _moment("02/29", leap_day_s + 3600) == leap_day_s


@pytest.mark.parametrize("words", [["-S", "soon"], ["-o", "Nonsense"], ["--gid=3"], ["12"]])
def test_what_is_refused(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radrm.slurm.commands.shown.asked", lambda *_, **__: [])
    with pytest.raises(UsageError):
        sacct(words, "ada")


def test_times_and_codes() -> None:
    times = {0: "00:00:00", 62: "00:01:02", 3600: "01:00:00", 90_061: "1-01:01:01"}
    assert {seconds: written(seconds) for seconds in times} == times
    codes = {None: "0:0", 3: "3:0", 137: "0:9"}
    assert {code: exit_code({"exit_code": code}) for code in codes} == codes
