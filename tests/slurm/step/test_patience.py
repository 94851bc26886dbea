"""A controller of Slurm that is away, or restarts while it is asked."""

from __future__ import annotations

import signal

import pytest

from radrm.slurm.asking import SlurmRefused
from radrm.slurm.step import returning
from radrm.slurm.step.returning import patiently

RESET = SlurmRefused("slurm_load_jobs error: Connection reset by peer")


class Controller:
    """Refuses as long as there are `refusals`. `up`: what a ping finds, one after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refusals: int, up: list[bool]) -> None:
        self.refusals, self.up = refusals, up
        self.asked = self.pinged = 0
        monkeypatch.setattr(returning, "is_up", self.ping)
        monkeypatch.setattr(returning, "_PAUSE_S", 0.0)

    def ask(self) -> str:
        self.asked += 1
        if self.asked <= self.refusals:
            raise RESET
        return "it"

    def ping(self, timeout_s: float) -> bool:
        self.pinged += 1
        return self.up[min(self.pinged, len(self.up)) - 1]


def test_it_is_asked_until_it_is_back_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    controller = Controller(monkeypatch, 50, [False] * 48 + [True])
    assert patiently(controller.ask, 60.0, said.append) == "it"
    assert said == [f"Slurm's controller does not answer, waiting: {RESET}"]


@pytest.mark.parametrize(
    ("up", "patience_s", "asked", "pinged"),
    [([True], 60.0, 3, 3), ([False, True], 60.0, 4, 4), ([False], 0.0, 1, 0)],
)
def test_a_refusal_of_one_that_is_up_is_believed_the_third_time(
    monkeypatch: pytest.MonkeyPatch, up: list[bool], patience_s: float, asked: int, pinged: int
) -> None:
    controller = Controller(monkeypatch, 99, up)
    with pytest.raises(SlurmRefused, match="reset by peer"):
        patiently(controller.ask, patience_s, lambda text: None)
    assert (controller.asked, controller.pinged) == (asked, pinged)


def test_slurms_term_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(monkeypatch, 99, [False])
    sent = [signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM]
    monkeypatch.setattr(returning, "_PAUSE_S", 60.0)
    monkeypatch.setattr(returning.attempt, "wait", lambda seconds: sent.pop(0))
    with pytest.raises(SlurmRefused):
        patiently(controller.ask, 60.0, lambda text: None)
    assert (controller.asked, sent) == (1, [])
