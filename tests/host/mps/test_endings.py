"""A control daemon has time to end; it is killed at once only by force."""

from __future__ import annotations

import os

import pytest

from radrm.host.mps import keeper
from radrm.host.mps.control import Control
from radrm.host.mps.keeper import FORCED_QUIT_S, QUIT_S, Endings
from tests.host.mps.controls import Place
from tests.waiting import wait_until


def of(control: Control) -> Endings:
    return Endings("GPU 0", control, os.eventfd(0, os.EFD_NONBLOCK))


def test_one_that_takes_longer_than_an_answer_ends_by_itself(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """It was killed after 2 s, with its servers, while they took the contexts down."""
    assert QUIT_S >= 15 > FORCED_QUIT_S
    control = place.control()
    control.start()
    place.wrong(lingers=2.2)
    assert of(control).end([], forced=False, hurry=lambda: False)
    wait_until(lambda: control.process() is None, "its end")
    assert "kills it" not in caplog.text


@pytest.mark.parametrize("forced", [False, True])
def test_one_with_clients_is_killed_only_by_force(
    place: Place, forced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "QUIT_S", 3.0)  # it has to answer in this time
    monkeypatch.setattr(keeper, "FORCED_QUIT_S", 0.3)
    control = place.control()
    control.start()
    place.client(control)
    servers = control.probe()
    assert of(control).end(servers, forced, hurry=lambda: False) is forced
    wait_until(lambda: (control.process() is None) is forced, "the KILL, or none")


def test_a_daemon_that_ends_does_not_wait(place: Place) -> None:
    control = place.control()
    control.start()
    place.wrong(lingers=60)
    assert not of(control).end([], forced=False, hurry=lambda: True)
    assert control.process() is not None, "it ends soon, or the next daemon adopts it"
