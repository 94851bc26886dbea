"""When the step gives up: a job that waits too long, a controller or a daemon that is silent."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.config import SlurmConfig
from radrm.errors import EXIT_NEVER_RAN, Refused, Unreachable
from radrm.host.processes.identity import Identity
from radrm.slurm import asking as programs
from radrm.slurm import comment, jobs, outer
from radrm.slurm.asking import SlurmRefused
from radrm.slurm.outer import SlurmJob, this_job
from radrm.slurm.step import attempt, main, returning
from radrm.slurm.step.attempt import Fence
from radrm.slurm.step.returning import elsewhere, give_back
from radrm.structs import replace

JOB = SlurmJob(
    *("47", "c", 0, "train", "shared", "g1", 1),
    process=Identity(2, 3, "b"),
    gpumem_mib=9000,
    element="46_1",
)
SHOWN = "JobId=47 Restarts=1 ReqNodeList=(null) ExcNodeList=g3 Comment=radrm: waits\n"
ROOM = "g1 gpumem:81920\ng2 gpumem:81920\ng3 gpumem:81920\ng4 gpumem:8192\ng5 (null)\n"


class Slurm:
    """Stands in for Slurm's commands; notes what was asked. `fails`: the command that does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: str = "nothing") -> None:
        self.asked: list[str] = []
        self.fails = fails
        self.said = {"show job": SHOWN, "sinfo": ROOM, "hostnames": "g3\n", "ping": ""}
        for module in (returning, jobs, outer, attempt, programs):
            monkeypatch.setattr(module, "run", self.run)
        monkeypatch.setattr(main, "run_slurm", self.run)

    def run(self, *words: str, timeout_s: float = 0.0) -> str:
        line = " ".join(words)
        self.asked.append(line)
        if self.fails in line:
            raise SlurmRefused("Slurm is busy")
        return next((text for name, text in self.said.items() if name in line), "")


def test_the_count_is_written_before_a_job_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command names the element: its number alone may be that of its whole array."""
    slurm = Slurm(monkeypatch)
    give_back(JOB, SlurmConfig(), "why")
    first, second, *_, last = slurm.asked
    assert first == "scontrol update JobId=46_1 Comment=why"
    assert second == "scontrol requeue 46_1"
    assert last == "scontrol update JobId=46_1 ExcNodeList=g1,g3"


@pytest.mark.parametrize(("fails", "asked"), [("Comment", 1), ("requeue", 2)])
def test_a_job_that_slurm_does_not_take_is_not_returned(
    monkeypatch: pytest.MonkeyPatch, fails: str, asked: int
) -> None:
    slurm = Slurm(monkeypatch, fails)
    with pytest.raises(SlurmRefused):
        give_back(JOB, SlurmConfig(), "why")
    assert len(slurm.asked) == asked


@pytest.mark.parametrize("fails", ["sinfo", "hostnames", "show job", "ExcNodeList"])
def test_without_another_node_it_goes_back_all_the_same(
    monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    slurm = Slurm(monkeypatch, fails)
    give_back(JOB, SlurmConfig(), "why")
    assert "scontrol requeue 46_1" in slurm.asked


@pytest.mark.parametrize(
    ("required", "excluded", "room", "found"),
    [
        ("(null)", "(null)", "g1 g2", "g1"),
        ("(null)", "g3", "g1 g2 g3", "g1 g3"),
        ("(null)", "g2 g3", "g1 g2 g3", ""),
        ("(null)", "(null)", "g1", ""),
        ("(null)", "(null)", "", ""),
        ("g1", "(null)", "g1 g2", ""),
        ("", "", "g1 g2", "g1"),
    ],
)
def test_where_a_job_may_not_run_any_more(
    required: str, excluded: str, room: str, found: str
) -> None:
    shown = {"ReqNodeList": required, "ExcNodeList": excluded}
    assert elsewhere("g1", shown, room.split(), str.split) == set(found.split())


def test_only_nodes_with_so_much_memory_count(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm(monkeypatch)
    slurm.said["hostnames"] = "g2\ng3\n"
    give_back(JOB, SlurmConfig(), "why")
    assert not any("ExcNodeList=" in line for line in slurm.asked), "g4 is too small"
    give_back(replace(JOB, gpumem_mib=8000), SlurmConfig(), "why")
    assert slurm.asked[-1].endswith("ExcNodeList=g1,g2,g3")


def test_the_name_of_an_element() -> None:
    own = {"SLURM_JOB_ID": "47"}
    assert this_job(own).named == "47"
    element = {**own, "SLURM_ARRAY_JOB_ID": "46", "SLURM_ARRAY_TASK_ID": "1"}
    assert this_job(element).named == "46_1"
    assert this_job({**element, "SLURM_ARRAY_TASK_ID": "x"}).named == "47"


# ----------------------------------------------------------------- a silent controller


def test_a_controller_that_comes_back_in_time_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm(monkeypatch)
    slurm.said["config"] = "SlurmdTimeout           = 40 sec\n"
    own = Fence()
    began_s, up = own._heard_s, "Slurmctld(primary) at UP1 is DOWN\nSlurmctld(backup) at h is UP\n"

    def looked(after_s: float, said: str) -> bool:
        slurm.said["ping"] = said
        return own.look(began_s + after_s) is not None

    assert own.every_s == 10
    assert not looked(30, "Slurmctld(primary) at UP1 is DOWN\n")
    assert not looked(39, up), "it was asked a second ago"
    assert not looked(41, up)
    assert not looked(80, "Slurmctld(primary) at UP1 is DOWN\n")
    assert looked(90, "Slurmctld(primary) at UP1 is DOWN\n")
    assert slurm.asked.count("scontrol ping") == 4


# ----------------------------------------------------------------- the step


class Daemon:
    """Stands in for the connection to a daemon: the answers that it gives, one after the other."""

    paths = None

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = list(answers)

    def ask(self, op: str, **words: Any) -> dict[str, Any]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        pass


ENDED = {
    "state": "FAILED",
    "outcome": "failed",
    "exit_code": 3,
    "reason": "exit code 3",
    "started_at": 1.0,
}
WAITS = {"state": "QUEUED", "reason": "GPU 0: busy", "started_at": None}


def step_of(monkeypatch: pytest.MonkeyPatch, job: SlurmJob, *answers: Any) -> main.Step:
    """The step of a submitted job, which never waits."""
    monkeypatch.setattr(main.attempt, "wait", lambda seconds: None)
    daemon: Any = Daemon(*answers)
    envelope: Any = type("Envelope", (), {"ticket": "T"})()
    made = main.Step(job, SlurmConfig(), daemon, envelope, 0.0)
    made._submitted = True
    return made


@pytest.mark.parametrize("returned", [0, 2, 3, 7])
def test_a_job_is_returned_three_times_and_then_fails_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], returned: int
) -> None:
    slurm = Slurm(monkeypatch)
    job = replace(JOB, comment=comment.waiting("GPU 0: busy", returned))
    waits, gone = {"vouched": True, "job": WAITS}, {**WAITS, "state": "CANCELLED"}
    own = step_of(monkeypatch, job, waits, {"vouched": True, "job": gone})
    assert own.run() == EXIT_NEVER_RAN
    assert ("scontrol requeue 46_1" in slurm.asked) is (returned < 3)
    said = capsys.readouterr().err
    assert "on node g1: GPU 0: busy" in said and said.count("\n") == 1
    if returned < 3:
        assert comment.returned(slurm.asked[0].partition("Comment=")[2]) == returned + 1
    else:
        assert f"returned to Slurm {returned} times already, and fails" in said


def test_a_job_that_slurm_may_not_run_again_fails_where_it_waits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = Slurm(monkeypatch)
    waits, gone = {"vouched": True, "job": WAITS}, {**WAITS, "state": "CANCELLED"}
    job = replace(JOB, requeue=False)
    own = step_of(monkeypatch, job, waits, {"vouched": True, "job": gone})
    assert own.run() == EXIT_NEVER_RAN
    assert slurm.asked == [] and "it has --no-requeue" in capsys.readouterr().err


def test_a_second_step_of_a_slurm_job_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    own = step_of(monkeypatch, JOB, {"vouched": True, "earlier": "job 17 (COMPLETED)"})
    with pytest.raises(Refused, match=r"Slurm job 46_1 has .* job 17 \(COMPLETED\)"):
        own.run()


def test_a_step_bears_a_daemon_that_refuses_it_for_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new daemon asks slurmd who the step is, and slurmd may be down."""
    Slurm(monkeypatch)
    refused, answer = Refused("Slurm does not say"), {"vouched": True, "job": ENDED}
    for errors, code in ([refused] * 100, 3), ([Unreachable("down")] * 300, 3):
        own = step_of(monkeypatch, JOB, *errors, answer)
        own._served = 1  # its attempt has run
        assert own.run() == code
    own = step_of(monkeypatch, JOB, *[refused] * 200)
    own._served = 1
    with pytest.raises(Refused):
        own.run()
    assert capsys.readouterr().err.count("which asks again: Slurm does not say") == 2


def test_before_its_job_is_submitted_a_refusal_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    own = step_of(monkeypatch, JOB, Refused("this daemon takes no jobs from Slurm"))
    own._submitted = False
    with pytest.raises(Refused):
        own.run()
