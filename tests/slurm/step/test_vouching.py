"""Whose step a daemon believes."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from radrm.config import SlurmConfig
from radrm.errors import RadrmError, Refused, Unreachable
from radrm.host.clock import Clock
from radrm.host.processes.identity import identify
from radrm.host.sockets import Peer
from radrm.host.storage.spool import Envelope
from radrm.slurm.asking import SlurmRefused
from radrm.slurm.outer import SlurmJob
from radrm.slurm.serving import Process, Steps
from tests.waiting import wait_until

UID = 1000
ON = SlurmConfig(enabled=True)


class Store:
    def job_of_outer(self, name: str) -> int | None:
        return None


class Site:
    """A daemon's steps, and a process that is the step of Slurm job 47, or says so."""

    def __init__(self, answer: bool | Exception = True, config: SlurmConfig = ON) -> None:
        self.answer, self.asked = answer, list[tuple[int, int, str]]()
        self.steps = Steps(config, Clock(), Store(), self.ask)
        self.process = subprocess.Popen(["sleep", "600"])
        found = identify(self.process.pid)
        assert found is not None
        self.identity = found
        self.me: Process = (found.pid, found.start_ticks, found.boot_id)
        self.peer = Peer(self.process.pid, UID, UID)

    def ask(self, pid: int, uid: int, job: str) -> bool:
        self.asked.append((pid, uid, job))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def vouched(self, job: str = "47", peer: Peer | None = None) -> bool | RadrmError:
        """What a step hears once Slurm was asked; False: it is to ask again."""
        try:
            return self.steps.vouch(peer or self.peer, self.me, job)
        except RadrmError as error:
            return error

    def envelope(self, job: str = "47") -> Envelope:
        ticket = "01M80TA4D4JDCEV010A4H87B41"
        outer = SlurmJob(job, "c", 0, "a", "shared", "g1", 1, process=self.identity)
        fields = outer.fields
        return Envelope(ticket, None, None, ("true",), {}, "/", 18, {}, 0.0, outer=fields)


@pytest.fixture
def site() -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(*words: object) -> Site:
        made.append(Site(*words))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.process.kill()
        each.process.wait()


def test_a_process_in_the_job_is_believed_for_that_job_and_user(
    site: Callable[..., Site],
) -> None:
    here = site()
    with pytest.raises(OSError, match="has not been vouched for"):
        here.steps.outer_of(here.envelope(), UID)
    assert here.vouched() is False, "Slurm is asked first"
    assert wait_until(here.vouched) is True
    assert here.asked == [(here.me[0], UID, "47")]
    found = here.steps.outer_of(here.envelope(), UID)
    assert found is not None and found.id == "47"
    for job, uid in ("48", UID), ("47", UID + 1):
        with pytest.raises(OSError, match="has not been vouched for"):
            here.steps.outer_of(here.envelope(job), uid)
    for other in here.vouched("48"), here.vouched(peer=Peer(here.me[0], UID + 1, UID)):
        assert isinstance(other, Refused) and "is not in Slurm job" in str(other)


def test_one_that_is_not_in_the_job_is_refused(site: Callable[..., Site]) -> None:
    here = site(False)
    here.vouched()
    said = wait_until(here.vouched)
    assert isinstance(said, Refused) and str(said).endswith("is not in Slurm job 47")


@pytest.mark.parametrize("error", [SlurmRefused("slurmd is away"), OSError("no memory")])
def test_while_slurm_does_not_say_the_step_may_ask_again(
    site: Callable[..., Site], error: Exception
) -> None:
    here = site(error)
    here.vouched()
    said = wait_until(here.vouched)
    assert isinstance(said, Unreachable) and str(error) in str(said)
    here.answer = True
    assert here.vouched() is False
    assert wait_until(here.vouched) is True


def test_nobody_speaks_for_another_process(site: Callable[..., Site]) -> None:
    here = site()
    said = here.vouched(peer=Peer(os.getpid(), UID, UID))
    assert isinstance(said, Refused) and "is not the one that asks" in str(said)
    here.process.kill()
    here.process.wait()
    said = here.vouched()
    assert isinstance(said, Refused) and here.asked == []
    with pytest.raises(Refused, match="ended before its job was taken in"):
        here.steps.outer_of(here.envelope(), UID)


def test_a_daemon_that_slurm_does_not_use_takes_none_and_one_for_it_alone_no_other(
    site: Callable[..., Site],
) -> None:
    off, only = site(True, SlurmConfig()), site(True, dataclasses.replace(ON, only=True))
    said = off.vouched()
    assert isinstance(said, Refused) and "set slurm.enabled = true there" in str(said)
    with pytest.raises(Refused, match="takes no jobs from Slurm"):
        off.steps.outer_of(off.envelope(), UID)
    with pytest.raises(Refused, match="radrm submit --cluster FILE, or sbatch"):
        only.steps.outer_of(Envelope(**{**only.envelope().as_dict(), "outer": None}), UID)
