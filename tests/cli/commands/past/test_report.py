"""`radrm report --energy`: what it asks for, and what people read."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from typing import Any

import pytest

import radrm.cli.commands.report
from radrm.cli.show.past import energy_page
from tests.cli.fakes import ESC, NOW, Script, shown
from tests.cli.runner import invoke

DAY = 86_400.0


def figures(kwh: float, share: float | None = None) -> dict[str, Any]:
    return {"kwh": kwh, "cost": kwh / 2, "share": share}


def answer(by: str = "user", *rows: dict[str, Any], **changed: Any) -> dict[str, Any]:
    usual = {
        "by": by,
        "since": NOW - 7 * DAY,
        "until": NOW,
        "first": NOW - 9 * DAY,
        "currency": "EUR",
        "pue": 1.33,
        "rows": list(rows),
        "more": {"rows": 0, **figures(0.0, 0.0)},
        "idle": figures(1.0, 0.2),
        "total": figures(5.0, 1.0),
        "equally_kwh": 0.0,
        "unread": [],
    }
    return usual | changed


def ask(monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[Any, Script]:
    ann = {"user": "ann", **figures(4.0, 0.8)}
    client = Script(ping=[{"now": NOW}], energy=[answer("user", ann)])
    monkeypatch.setattr(radrm.cli.commands.report, "Client", lambda: client)
    return invoke("report", *words), client


def test_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    done, client = ask(monkeypatch, "--energy")
    assert done.stdout.splitlines()[:4] == [
        "USER       KWH   EUR   SHARE",
        "ann     4.0000  2.00   80.0%",
        "(idle)  1.0000  0.50   20.0%",
        "total   5.0000  2.50  100.0%",
    ]
    assert client.asked[1] == ("energy", {"by": "user", "since": NOW - 7 * DAY, "until": NOW})
    done, _ = ask(monkeypatch, "--energy", "--json")
    assert json.loads(done.stdout)["rows"][0]["user"] == "ann"


def test_simulated_gpus_are_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"user": "ann", **figures(4.0, 0.8)}
    client = Script(ping=[{"now": NOW}], energy=[answer("user", row, simulated=True)])
    monkeypatch.setattr(radrm.cli.commands.report, "Client", lambda: client)
    asked = ["report", "--energy"]
    assert "; simulated GPUs\n" in invoke(*asked).stdout
    page = invoke(*asked, "--html", "-").stdout
    assert " (simulated GPUs)</h1>" in page


def midnight(now_s: float, days_ago: int = 0) -> float:
    day = date.fromtimestamp(now_s) - timedelta(days=days_ago)
    return datetime(day.year, day.month, day.day).timestamp()


TIMES = [
    (["--since", "12h"], NOW - DAY / 2, NOW),
    (["--since", "3d", "--until", "1d"], NOW - 3 * DAY, NOW - DAY),
    (["--since", "2026-01-31"], datetime(2026, 1, 31).timestamp(), NOW),
    (["--since=2026-01-31T18:00+02:00"], 1769875200.0, NOW),
    (["--since", "999999d"], 0.0, NOW),
    (["--since=yesterday", "--until=0:00"], midnight(NOW, 1), midnight(NOW)),
    (["--since=yesterday", "--until=today"], midnight(NOW, 1), midnight(NOW)),
]


@pytest.mark.parametrize(("words", "since", "until"), TIMES)
def test_times(
    monkeypatch: pytest.MonkeyPatch, words: list[str], since: float, until: float
) -> None:
    _, client = ask(monkeypatch, "--energy", "--by", "day", *words)
    assert client.asked[1] == ("energy", {"by": "day", "since": since, "until": until})


MISTAKES = [
    (["--html", "x", "--json"], "--html and --json exclude each other"),
    (["--overview", "--by", "user"], "--overview and --by exclude each other"),
    (["--overview", "--energy"], "--overview and --energy exclude each other"),
    (["--energy", "--by", "colour"], "--by: 'colour' is none of user, job, gpu, day, group"),
    (["--energy", "--since", "1d", "--until", "2d"], "--since 1d is not before --until 2d"),
    (["--energy", "--since", "soon"], "neither a time span nor a date; write 7d, 12h"),
    *[
        (["--energy", "--until", text], f"'{text}' is neither")
        for text in ("2030-13-01", "2026-11")
    ],
]


@pytest.mark.parametrize(("words", "told"), MISTAKES)
def test_a_mistake_is_one_line(
    monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
) -> None:
    done, _ = ask(monkeypatch, *words)
    assert told in str(done.exception) and "\n" not in str(done.exception)


@pytest.mark.parametrize("width", [30, 80])
def test_jobs_and_hostile_names_fit_the_terminal(width: int) -> None:
    rows = [
        {"job": n, "label": str(n), "name": f"{ESC}train", "user": "ann", **figures(2.0, 0.4)}
        for n in (7, 12)
    ]
    page = energy_page(answer("job", *rows, more={"rows": 3, **figures(0.1, 0.02)}))
    lines = shown(page, width=width)
    assert all(len(line) <= width for line in lines[:6])
    assert not any("\x1b" in line or "\u202e" in line for line in lines)
    assert lines[3].startswith("(3 more)") and lines[5].startswith("total")


def test_gpus_and_days_have_their_idle_energy() -> None:
    gpu = {"gpu": "GPU-a", "index": 0, "name": "A100", "idle_kwh": 0.5, **figures(4.0, 0.8)}
    gone = {**gpu, "gpu": "GPU-b", "index": None, "name": None}
    lines = shown(energy_page(answer("gpu", gpu, gone)), terminal=False)
    assert lines[0].split() == ["GPU", "NAME", "KWH", "EUR", "SHARE", "IDLE", "KWH"]
    assert [lines[1].split()[0], lines[2].split()[0]] == ["0", "GPU-b"]
    day = {"day": "2030-01-31", "idle_kwh": 0.5, **figures(4.0, 0.8)}
    assert "2030-01-31" in shown(energy_page(answer("day", day)), terminal=False)[1]


def test_what_is_unknown_is_said() -> None:
    unread = [
        {"gpu": "GPU-a", "index": 0, "seconds": 7200.0},
        {"gpu": "MIG-b", "index": None, "seconds": None},
    ]
    page = energy_page(answer(equally_kwh=0.5, unread=unread, first=NOW - DAY))
    told = "\n".join(shown(page, terminal=False))
    assert "0.5000 kWh are divided equally" in told
    assert "Unknown, because no power was read: GPU 0 for 2h" in told
    assert "its power cannot be read: GPU MIG-b" in told
    assert "The record begins at" in told
    quiet = "\n".join(shown(energy_page(answer(equally_kwh=0.01)), terminal=False))
    assert "equally" not in quiet and "Unknown" not in quiet


def test_an_empty_record_says_so() -> None:
    page = energy_page(answer(total=figures(0.0), idle=figures(0.0), first=None))
    (line,) = shown(page, terminal=False)
    assert line.startswith("No energy is on record from ")
