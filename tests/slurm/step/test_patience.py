"""A controller of Slurm that is away, or restarts while it is asked."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from radrm.errors import Refused
from radrm.slurm import comment
from radrm.slurm.asking import SlurmRefused
from radrm.slurm.step import main, returning
from radrm.slurm.step.returning import patiently
from tests.slurm.step.test_returning import ENDED, JOB, Slurm, step_of

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


def test_a_step_that_begins_meanwhile_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(monkeypatch, 2, [True])

    def shown(job: str) -> dict[str, str]:
        controller.ask()
        return {"JobName": "train"}

    def refuse(job: object, *_: object) -> None:
        raise Refused(f"asked of {job}")

    monkeypatch.setattr(main, "this_job", lambda environ: JOB)
    monkeypatch.setattr(main, "shown", shown)
    monkeypatch.setattr(main, "make_envelope", refuse)
    monkeypatch.setattr(main.attempt, "block", lambda: None)
    with pytest.raises(Refused, match="asked of"):
        main.main("train.sh")
    assert controller.asked == 3


@pytest.mark.parametrize("what", ["Comment=radrm:gpu_s", "requeue"])
def test_nor_is_what_a_step_says_at_its_end(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    slurm = Slurm(monkeypatch)
    Controller(monkeypatch, 0, [True])
    answered = failing_once(slurm.run, what)
    monkeypatch.setattr(main, "run_slurm", answered)
    monkeypatch.setattr("radrm.slurm.step.returning.run", answered)
    use = comment.Use(gpu_s=1.0, smact=None, peak_mib=None, energy_j=None)
    ended = {"vouched": True, "job": ENDED, "use": {"gpu_s": use.gpu_s}}
    waits = {"vouched": True, "job": {**ENDED, "state": "QUEUED"}}
    gone = {"vouched": True, "job": {**ENDED, "state": "CANCELLED"}}
    own = step_of(monkeypatch, JOB, *([ended] if "gpu_s" in what else [waits, gone]))
    own.run()
    assert sum(what in line for line in slurm.asked) == 1


def failing_once(run: Callable[..., str], what: str) -> Callable[..., str]:
    left = [RESET]

    def answered(*words: str, timeout_s: float = 0.0) -> str:
        if left and what in " ".join(words):
            raise left.pop()
        return run(*words, timeout_s=timeout_s)

    return answered
