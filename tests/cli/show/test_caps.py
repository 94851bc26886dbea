"""A client's memory cap is its reservation at its start; it is shown where less is reserved now."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.cli.show.card import card
from tests.cli.fakes import NOW, job
from tests.cli.fakes import shown as lines_of


def shown(attempt: dict[str, Any], **changed: Any) -> str:
    running = job(5, "RUNNING", **{"reserved_mib": 5120, "peak_mib": 4096, **changed})
    return "\n".join(lines_of(card(running, NOW, {}, [attempt]), 100))


ATTEMPT = {"number": 1, "reserved_mib": 20480, "ended_at": None, "smact": None}


def test_a_cap_beyond_the_reservation_is_shown() -> None:
    said = shown(ATTEMPT)
    assert "reserved 5.0G per GPU, peak use 4.0G" in said
    assert "20.0G per GPU, more than is reserved now" in said


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
    assert "more than is reserved" not in shown(ATTEMPT | attempt, **changed)
