"""Whose step a daemon believes."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from radrm.config import SlurmConfig
from radrm.core.records import OuterJob
from radrm.errors import RadrmError, Refused, Unreachable
from radrm.host.processes.identity import WAKE, identify
from radrm.host.sockets import Peer
from radrm.host.storage.spool import Envelope
from radrm.slurm.asking import SlurmRefused
from radrm.slurm.outer import SlurmJob, Told
from radrm.slurm.serving import NotThere, Process, Steps, in_slurms_numbers
from radrm.slurm.telling import Notes, Voice
from tests.waiting import wait_until

UID = 1000
ON = SlurmConfig(enabled=True)


TOLD = Told("47", "47", "0", UID, "train", "shared", "g1", 3600.0, 0.0, 9000, "")


class Said(Voice):
    """Notes what would be done."""

    def __init__(self, done: list[str]) -> None:
        super().__init__()
        self.may_tell, self.done = True, done

    def do(self, name: str, work: Callable[[], object]) -> None:
        self.done.append(name)


class Store:
    def job_of_outer(self, name: str) -> int | None:
        return None


class Site:
    """A daemon's steps, and a process that is the step of Slurm job 47, or says so."""

    def __init__(self, answer: Told | Exception | None = TOLD, config: SlurmConfig = ON) -> None:
        self.answer, self.asked = answer, list[tuple[int, str, str]]()
        self.drained: list[str] = []
        self.steps = Steps(config, Store(), self.ask, Notes(60.0, Said(self.drained)))
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {WAKE})  # as a step
        self.process = subprocess.Popen(["sleep", "600"])
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        found = identify(self.process.pid)
        assert found is not None
        self.identity = found
        self.me: Process = (found.pid, found.start_ticks, found.boot_id)
        self.peer = Peer(self.process.pid, UID, UID)

    def ask(self, pid: int, job: str, named: str) -> Told | None:
        self.asked.append((pid, job, named))
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
        made.append(Site(*words))
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
    assert here.asked == [(here.me[0], "47", "47")]
    assert here.steps.outer_of(here.envelope(), UID).id == "47"
    for job, uid in ("48", UID), ("47", UID + 1):
        with pytest.raises(OSError, match="has not been vouched for"):
            here.steps.outer_of(here.envelope(job), uid)
    for other in here.vouched("48"), here.vouched(peer=Peer(here.me[0], UID + 1, UID)):
        assert isinstance(other, Refused) and "is not in Slurm job" in str(other)


def test_one_that_is_not_in_the_job_is_refused(site: Callable[..., Site]) -> None:
    here = site(NotThere(7, "47"))
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
    here.answer = TOLD
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
    off, only = site(TOLD, SlurmConfig()), site(TOLD, dataclasses.replace(ON, only=True))
    with pytest.raises(Refused, match="takes no jobs from Slurm"):
        off.steps.outer_of(off.envelope(), UID)
    with pytest.raises(Refused, match="radrm submit --cluster FILE, or sbatch"):
        only.steps.outer_of(Envelope(**{**only.envelope().as_dict(), "outer": None}), UID)


def outer(number: str = "47", pid: int = 77) -> OuterJob:
    return OuterJob("slurm", "c", number, 0, pid=pid, start_ticks=1, boot_id="b")


@pytest.mark.parametrize("told", [None, replace(TOLD, uid=UID + 1), replace(TOLD, id="48")])
def test_a_job_is_believed_to_its_own_user_alone(
    site: Callable[..., Site], told: Told | None
) -> None:
    """While the controller is away membership suffices: Slurm starts no process of another user in
    a job."""
    here = site(told)
    here.vouched()
    said = wait_until(here.vouched)
    assert said is True if told is None else isinstance(said, Refused)


@pytest.mark.parametrize(
    ("config", "told", "whose"),
    [
        (ON, TOLD, None),
        (SlurmConfig(), TOLD, "node"),
        (ON, replace(TOLD, partition="whole"), "job"),
    ],
)
def test_whose_fault_it_is_that_a_job_cannot_run_here(
    site: Callable[..., Site], config: SlurmConfig, told: Told, whose: str | None
) -> None:
    found = site(TOLD, config).steps.fault(outer(), told)
    assert (found and found[0]) == whose


def test_the_third_job_that_a_node_cannot_serve_drains_it(site: Callable[..., Site]) -> None:
    """Three jobs, not three questions of one; and none that asks for no GPU memory."""
    here = site(TOLD, SlurmConfig())
    for number, restart in ("47", "0"), ("47", "1"), ("48", "0"):
        here.steps.fault(outer(number), replace(TOLD, id=number, restart=restart))
    here.steps.fault(outer("49"), replace(TOLD, id="49", gpumem_mib=None))
    assert here.drained == []
    here.steps.fault(outer("50"), replace(TOLD, id="50"))
    assert here.drained == ["the node"]


def test_a_reason_names_jobs_of_slurms_by_slurms_numbers() -> None:
    known = {3: "4711", 4: "4712"}

    def job_of(number: int) -> Any:
        inside = outer(known[number]) if number in known else None
        return SimpleNamespace(outer=inside) if number < 9 else None

    text = "job 3 is on GPU 0; jobs 3, 4 are on GPU 1; job 5 books 2; job 9 was"
    assert in_slurms_numbers(text, job_of) == (
        "Slurm job 4711 is on GPU 0; Slurm jobs 4711, 4712 are on GPU 1; job 5 books 2; job 9 was"
    )


def test_root_acts_on_what_slurm_has_said_and_not_on_a_steps_names(
    site: Callable[..., Site],
) -> None:
    """A process of job 47 speaks for itself at first, and then of job 99 and of runs that never
    were."""
    here = site()
    here.vouched()
    wait_until(here.vouched)
    for restart, named in (0, "47"), (1, "99"), (2, "99"):
        words = ("slurm", "c", "47", restart, *here.me)
        told = here.steps.told(here.peer, OuterJob(*words), named)
        assert (told.named, told.run) == ("47", "47.0")
    assert [job.named for job in here.steps.notes._jobs.values()] == ["47"]
