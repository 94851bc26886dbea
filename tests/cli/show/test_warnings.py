"""What the user of a running job was warned of, as people read it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from radrm.cli.show.card import card, explanation
from radrm.cli.show.jobs import job_rows
from tests.cli.fakes import ESC, NOW, job, shown

TEXT = "GPU 0 shows SM activity below 0.05 for 30m (now 0.01)"
WARNING = {"kind": "idle", "text": TEXT, "at": NOW, "does": "it is cancelled", "does_at": NOW + 600}


@pytest.fixture(autouse=True)
def utc(zone: Callable[[str], None]) -> None:
    zone("UTC")


def test_a_warning_says_what_follows_and_how_to_spare_the_job() -> None:
    warned = job(1, "RUNNING", warnings=[WARNING], reason=TEXT)
    assert shown(job_rows([warned], {}, NOW), 120)[1].endswith("idle: it is cancelled at 8:10")
    lines = shown(card(warned, NOW, {}), 120)
    assert f"  warning     {TEXT}; it is cancelled at 8:10" in lines
    assert not any(line.startswith("  why") for line in lines)
    assert "radrm edit 1 --expect-idle" in lines[-1]
    answer = {"job": warned, "now": NOW, "attempts": [], "reasons": [], "devices": []}
    said = shown(explanation({**answer, "ahead": None, "summary": TEXT}), 120)
    assert f"  {TEXT}; it is cancelled at 8:10" in said


def test_a_warning_without_an_action_says_no_more() -> None:
    warning = WARNING | {"does": None, "does_at": None, "text": f"it is idle{ESC}"}
    warned = job(1, "RUNNING", warnings=[warning], reason="it is idle")
    assert shown(job_rows([warned], {}, NOW))[1].endswith("  idle")
    lines = "\n".join(shown(card(warned, NOW, {})))
    assert "warning     it is idle" in lines and "\x1b]0;" not in lines
