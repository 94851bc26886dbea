"""What agents are given is plain, short and little, whatever users have written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

# Of the extra; mcp itself would take each worker a second.
pytest.importorskip("pydantic", reason="pip install 'radrm[mcp]'")

from radrm.agents import bounded
from radrm.agents.answers import Limit
from radrm.agents.jobs import log_of
from radrm.errors import Refused
from tests.cli.fakes import Script


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("resnet 50", "resnet 50"),
        ("a\nb\tc", "a�b�c"),
        ("\x1b[31mred", "�[31mred"),
        ("right‮to left", "right�to left"),
        ("tag\U000e0041\U000e0042", "tag��"),
        ("selector\U000e0100\U000e01ef", "selector��"),
        ("zero​width", "zero�width"),
        ("Grüße 中文", "Grüße 中文"),
        ("x" * 501, "x" * 497 + "..."),
        (12, "12"),
    ],
)
def test_a_text_is_one_line_of_what_people_see(given: object, shown: str) -> None:
    assert bounded.text(given) == shown


def test_long_lists_say_what_they_leave_out() -> None:
    assert bounded.texts(range(3), 3) == ["0", "1", "2"]
    assert bounded.texts(range(5), 3) == ["0", "1", "2", "... 2 more"]
    assert bounded.texts(None) == []


def test_rows_end_where_the_answer_is_full() -> None:
    rows = [Limit(name="x" * 50, limit=None, use=None) for _ in range(10)]
    size = len(rows[0].model_dump_json())
    assert len(bounded.fitting(rows, 3 * size)) == 3
    assert len(bounded.fitting(rows, 1)) == 1
    assert bounded.fitting([]) == []


def test_of_a_log_the_last_lines_count() -> None:
    assert bounded.last_that_fit(["one", "two", "three"], 10) == ["two", "three"]
    (line,) = bounded.last_that_fit(["y" * 5000])
    assert len(line) == bounded.MOST_LINE


@pytest.mark.parametrize("epoch_s", [None, -1.0, 1e300, float("nan")])
def test_a_time_that_is_none(epoch_s: float | None) -> None:
    assert bounded.moment(epoch_s) is None


def test_a_time_has_its_zone(zone: Callable[[str], None]) -> None:
    zone("UTC")
    assert bounded.moment(1_800_000_000.6) == "2027-01-15T08:00:00+00:00"


def test_a_log_of_another_user_leads_an_agent_to_no_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    log = tmp_path / "log"
    log.symlink_to("secret")
    place = {"stdout": str(log), "uid": os.geteuid() + 1, "attempt": 1, "live": False}
    with pytest.raises(Refused, match="leads to a file of root"):
        log_of(cast(Any, Script(logs=[place])), "1", "stdout", 9)
