"""A client's memory cap is what it was promised at its start, and is shown where less is now."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from radrm.cli.show.card import card
from tests.cli.fakes import NOW, job


def shown(attempt: dict[str, Any], **changed: Any) -> str:
    running = job(5, "RUNNING", **{"reserved_mib": 5120, "peak_mib": 4096, **changed})
    console = Console(width=100)
    with console.capture() as capture:
        console.print(card(running, NOW, {}, [attempt]))
    return capture.get()


ATTEMPT = {"number": 1, "reserved_mib": 20480, "ended_at": None, "smact": None}


def test_a_cap_beyond_the_promise_is_shown() -> None:
    said = shown(ATTEMPT)
    assert "promised 5.0G per GPU, peak 4.0G" in said
    assert "20.0G: it may still grow beyond its promise" in said


@pytest.mark.parametrize(
    ("attempt", "changed"),
    [
        ({}, {"collocation": "timeslice"}),
        ({}, {"estimate_mib": None}),
        ({}, {"reserved_mib": None}),
        ({}, {"reserved_mib": 20480}),
        ({"reserved_mib": None}, {}),
        ({"ended_at": NOW}, {}),
    ],
)
def test_without_one_nothing_is_said(attempt: dict[str, Any], changed: dict[str, Any]) -> None:
    assert "beyond its promise" not in shown(ATTEMPT | attempt, **changed)
