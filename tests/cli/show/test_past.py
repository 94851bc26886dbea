"""What people read of reports, of the history and of limits."""

from __future__ import annotations

from dataclasses import fields
from html.parser import HTMLParser
from typing import Any

import pytest

from radrm.cli.commands.report import web_page
from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.past import history_page, report_page
from radrm.cli.show.shares import limits_page
from radrm.cli.show.styled import Styled
from radrm.config.shapes import LimitsConfig
from tests.cli.fakes import ESC, NOW, job, shown

DAY = 86_400.0
ENDS = ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"]


def sums(**changed: Any) -> dict[str, Any]:
    usual = {
        "jobs": 3,
        "runs": 3,
        "completed": 1,
        "failed": 2,
        "timeout": 0,
        "cancelled": 0,
        "oom_deaths": 1,
        "waited_s": 90.0,
        "gpu_s": 7200.0,
        "kwh": 1.0,
        "cost": 2.0,
    }
    return usual | changed


def report(by: str, *rows: dict[str, Any], **changed: Any) -> dict[str, Any]:
    usual = {
        "by": by,
        "since": NOW - DAY,
        "until": NOW,
        "removed_until": None,
        "energy_since": NOW - 2 * DAY,
        "currency": "EUR",
        "pue": 1.0,
        "gpus": 2,
        "rows": list(rows),
        "more": {"rows": 0, **sums()},
        "idle": {"kwh": 0.5, "cost": 1.0},
        "total": sums(),
    }
    return usual | changed


def test_a_report_has_a_row_for_each_idle_energy_and_the_total() -> None:
    lines = shown(report_page(report("user", {"user": "ada", **sums()})), terminal=False)
    assert [line.split() for line in lines[:4]] == [
        ["USER", "JOBS", *ENDS, "OOM", "WAITED", "GPU-HOURS", "KWH", "EUR"],
        ["ada", "3", "1", "2", "0", "0", "1", "1m", "2.00", "1.00", "2.00"],
        ["(idle)", "0.50", "1.00"],
        ["total", "3", "1", "2", "0", "0", "1", "1m", "2.00", "1.00", "2.00"],
    ]
    assert lines[4].endswith("; 2 GPUs now")


def test_a_report_says_what_is_not_complete() -> None:
    row = {"gpu": "GPU-x", "index": None, "name": None, **sums()}
    page = report_page(report("gpu", row, removed_until=NOW - 60, energy_since=NOW - 60))
    told = "\n".join(shown(page, terminal=False))
    assert "Figures are complete from" in told and "A job counts on each of its GPUs" in told
    assert "The record of energy begins at" in told
    row = {"user": None, **sums()}
    quiet = shown(report_page(report("user", row, removed_until=NOW - 2 * DAY)), terminal=False)
    assert len(quiet) == 5


def test_what_is_unknown_of_a_removed_job_is_no_zero() -> None:
    gone = dict.fromkeys(sums()) | {"kwh": 1.0, "cost": 2.0}
    row = {"job": 7, "label": "7", "name": None, "user": "ada", "state": None, **gone}
    line = shown(report_page(report("job", row)), terminal=False)[1]
    assert line.split() == ["7", "-", "ada", "removed", "-", "-", "-", "1.00", "2.00"]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("by", ["user", "job", "gpu", "day", "group"])
def test_a_report_fits_the_terminal(by: str, width: int) -> None:
    names = {"label": "123456_17", "name": f"{ESC}train" * 5, "user": "adalovelace", "index": 0}
    row = {by: f"{ESC}{'x' * 40}", **names, "state": "COMPLETED", **sums(jobs=123456)}
    lines = shown(report_page(report(by, row, more={"rows": 12, **sums()})), width=width)
    assert all(len(line) <= width for line in lines[:5])
    assert "\x1b" not in "".join(lines) and "\u202e" not in "".join(lines)
    assert ("CANCELLED" in lines[0]) == (width == 120 and by != "job")


def test_simulated_gpus_are_named_as_such() -> None:
    row = {"user": "ada", **sums()}
    assert shown(report_page(report("user", row, simulated=True)))[4].endswith(
        "; 2 simulated GPUs now"
    )
    assert shown(history_page(past(simulated=True), ""))[1].endswith("; simulated GPUs")


def test_an_empty_report_says_so() -> None:
    empty = report("user", total=sums(kwh=0.0), energy_since=None)
    (line,) = shown(report_page(empty), terminal=False)
    assert line.startswith("Nothing is on record from ")


# ------------------------------------------------------------------ history


def past(*jobs: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {
        "jobs": list(jobs),
        "total": len(jobs),
        "sums": sums(jobs=len(jobs), runs=len(jobs)),
        "since": NOW - DAY,
        "until": NOW,
        "removed_until": None,
        "devices": {"GPU-a": 0},
        **changed,
    }


def test_the_history_fits_80_columns() -> None:
    jobs = [
        job(5, "COMPLETED", peak_mib=20480, user="ada"),
        job(123456, "CANCELLED", name=f"{ESC}sweep" * 9, devices=["GPU-gone-forever", "GPU-a"]),
    ]
    lines = shown(history_page(past(*jobs), ""), width=80)
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].split()[:4] == ["ID", "NAME", "USER", "STATE"]
    assert lines[1].split()[-3:] == ["50s", "20.0G", "0"]
    assert "  GPU…  " in lines[2]
    assert lines[3] == "2 jobs, 2.00 GPU-hours, 2 failed, 1 out-of-memory death"
    wide = shown(history_page(past(*jobs), "radrm history --page 2"), terminal=False)
    assert wide[1].split()[-5:] == ["50s", "40s", "20.0G", "(6.0G)", "0"]
    assert wide[3] == "earlier jobs: radrm history --page 2"


def test_an_empty_history_says_so() -> None:
    lines = shown(history_page(past(), ""), terminal=False)
    assert lines[0] == "No such job has ended."


# ------------------------------------------------------------------ HTML


class Seen(HTMLParser):
    """The tags and the texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {"src", "href", "onload"} & {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_names_in_the_web_page_are_escaped() -> None:
    bad = "<script>alert(1)</script>&\"'</td>"
    table = Rows((Column(bad), Column("N", right=True)))
    table.add(bad, "1")
    page = Seen(web_page(bad, [(bad, [table, Styled(bad)])]))
    assert "script" not in page.tags and page.texts.count(bad) == 6
    assert page.tags.count("tr") == 2 and page.tags.count("td") == 2


# ------------------------------------------------------------------ limits


def test_the_use_stands_beside_each_limit() -> None:
    limits = [
        {"name": "gpus", "limit": 8, "use": 8},
        {"name": "running_jobs", "limit": 10, "use": 8},
        {"name": "queued_jobs", "limit": 100, "use": 79},
        {"name": "spool_mib", "limit": None, "use": 1.5},
        {"name": "array_size", "limit": 1000, "use": None},
        {"name": "requests_per_s", "limit": None, "use": None},
    ]
    page = limits_page({"user": "ada", "note": None, "limits": limits})
    assert [" ".join(line.split()[:5]) for line in shown(page)[1:]] == [
        "gpus 8 of 8 reached",
        "running_jobs 8 of 10 near",
        "queued_jobs 79 of 100 jobs",
        "spool_mib 1.5, no limit their",
        "array_size at most 1000 elements",
        "requests_per_s no limit requests a",
    ]


def test_each_limit_has_a_meaning() -> None:
    names = [each.name for each in fields(LimitsConfig)]
    limits = [{"name": name, "limit": 7, "use": None} for name in names]
    page = limits_page({"user": "ada", "note": None, "limits": limits})
    for name, line in zip(names, shown(page)[1:], strict=True):
        assert len(line.split()) > 4, name
