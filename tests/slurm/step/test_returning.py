"""What becomes of a job that cannot run on its node: whose fault that is decides."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radrm.errors import BadConfig, BadFile, Refused, StoreError, Unreachable, UsageError
from radrm.host.processes.identity import Identity
from radrm.slurm import asking as programs
from radrm.slurm import jobs, outer
from radrm.slurm.asking import SlurmRefused
from radrm.slurm.outer import SlurmJob, this_job
from radrm.slurm.step import attempt, main, returning
from radrm.slurm.step.returning import Fault, Whose, elsewhere, fault_of, give_back, why_it_fails

JOB = SlurmJob(
    *("47", "c", 0, "train", "shared", "g1", 1), process=Identity(2, 3, "b"), element="46_1"
)
SHOWN = (
    "JobId=47 Requeue=1 ReqNodeList=(null) ExcNodeList=g3 Comment=(null) "
    "TresPerNode=gres:gpumem:9000\n"
)
ROOM = "g1 gpumem:81920\ng2 gpumem:81920\ng3 gpumem:81920\ng4 gpumem:8192\ng5 (null)\n"


class Slurm:
    """Stands in for Slurm's commands; notes what was asked. `fails`: the command that does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: str = "nothing") -> None:
        self.asked: list[str] = []
        self.fails = fails
        self.said = {"show job": SHOWN, "sinfo": ROOM, "hostnames": "g3\n", "ping": ""}
        for module in (returning, jobs, outer, programs):
            monkeypatch.setattr(module, "run", self.run)
        monkeypatch.setattr(main, "run_slurm", self.run)
        monkeypatch.setattr(attempt, "wait", lambda seconds: None)

    def run(self, *words: str, timeout_s: float = 0.0) -> str:
        line = " ".join(words)
        self.asked.append(line)
        if self.fails in line:
            raise SlurmRefused("Slurm is busy")
        return next((text for name, text in self.said.items() if name in line), "")

    @property
    def changed(self) -> list[str]:
        """What was asked for that changes something."""
        return [line for line in self.asked if "update" in line or "requeue" in line]


def silent(text: str) -> None:
    """Nobody reads the log."""


@pytest.mark.parametrize(
    ("error", "whose"),
    [
        (Fault(Whose.WAIT, "it has waited"), Whose.WAIT),
        (BadFile("line 3"), Whose.JOB),
        (UsageError("--gpus=x"), Whose.JOB),
        (BadConfig("slurm.home"), Whose.NODE),
        (Unreachable("no daemon"), Whose.NODE),
        (StoreError("the disk is full"), Whose.NODE),
        (PermissionError(13, "Permission denied"), Whose.NODE),
        (Refused("process 7 is not in Slurm job 47"), Whose.PLACE),
        (KeyError("x"), Whose.PLACE),
    ],
)
def test_whose_fault_an_error_is(error: Exception, whose: Whose) -> None:
    assert fault_of(error).whose is whose


@pytest.mark.parametrize(
    ("whose", "returned", "may", "others", "fails"),
    [
        (Whose.JOB, 0, True, "g2", True),
        (Whose.PLACE, 0, True, "g2", False),
        (Whose.PLACE, 9, True, "g2", False),
        (Whose.PLACE, 0, True, "", True),
        (Whose.NODE, 9, True, "g2", False),
        (Whose.NODE, 0, True, "", False),
        (Whose.NODE, 0, False, "g2", True),
        (Whose.WAIT, 2, True, "", False),
        (Whose.WAIT, 3, True, "g2", True),
        (Whose.WAIT, 0, False, "g2", True),
    ],
)
def test_who_pays_for_it(whose: Whose, returned: int, may: bool, others: str, fails: bool) -> None:
    assert (why_it_fails(Fault(whose, "why", returned), may, others.split()) is not None) is fails


def test_a_job_goes_back_and_then_says_where_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command names the element: its number alone may be that of its whole array."""
    slurm = Slurm(monkeypatch)
    give_back(JOB, "gpumem", Fault(Whose.NODE, "no daemon"), silent)
    back, where = slurm.changed
    assert back == "scontrol requeue 46_1"
    assert where.startswith("scontrol update JobId=46_1 ExcNodeList=g1,g3 Comment=radrm: returned")


@pytest.mark.parametrize(
    ("comment", "kept"), [("(null)", False), ("radrm: waits: x", False), ("site:7", True)]
)
def test_a_comment_of_its_user_stays(
    monkeypatch: pytest.MonkeyPatch, comment: str, kept: bool
) -> None:
    slurm = Slurm(monkeypatch)
    slurm.said["show job"] = SHOWN.replace("Comment=(null)", f"Comment={comment}")
    give_back(JOB, "gpumem", Fault(Whose.NODE, "no daemon"), silent)
    assert ("Comment=" not in slurm.changed[-1]) is kept


def test_a_job_that_slurm_does_not_take_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm(monkeypatch, "requeue")
    monkeypatch.setattr(returning, "_PATIENCE_S", 0.0)
    with pytest.raises(SlurmRefused):
        give_back(JOB, "gpumem", Fault(Whose.NODE, "no daemon"), silent)
    assert not any("ExcNodeList" in line for line in slurm.asked)


@pytest.mark.parametrize("fails", ["sinfo", "hostnames", "ExcNodeList"])
@pytest.mark.parametrize("whose", [Whose.PLACE, Whose.NODE])
def test_where_slurm_does_not_say_it_goes_back_all_the_same(
    monkeypatch: pytest.MonkeyPatch, fails: str, whose: Whose
) -> None:
    slurm = Slurm(monkeypatch, fails)
    give_back(JOB, "gpumem", Fault(whose, "why"), silent)
    assert "scontrol requeue 46_1" in slurm.asked


@pytest.mark.parametrize(
    ("required", "excluded", "room", "found", "others"),
    [
        ("(null)", "(null)", "g1 g2", "g1", "g2"),
        ("(null)", "g3", "g1 g2 g3", "g1 g3", "g2"),
        ("(null)", "g2 g3", "g1 g2 g3", "g1 g2 g3", ""),
        ("(null)", "(null)", "g1", "g1", ""),
        ("(null)", "(null)", "", "g1", ""),
        ("g1", "(null)", "g1 g2", "", ""),
        ("", "", "g1 g2", "g1", "g2"),
    ],
)
def test_where_a_job_may_not_run_any_more(
    required: str, excluded: str, room: str, found: str, others: str
) -> None:
    shown = {"ReqNodeList": required, "ExcNodeList": excluded}
    places = elsewhere("g1", shown, room.split, str.split)
    assert places == (set(found.split()), set(others.split()))


def test_a_job_that_fits_no_other_node_fails_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the others g4 has too little memory, and g2, g3 are excluded."""
    slurm = Slurm(monkeypatch)
    slurm.said["hostnames"] = "g2\ng3\n"
    with pytest.raises(Fault, match="no other node is left") as found:
        give_back(JOB, "gpumem", Fault(Whose.PLACE, "the largest here have 39.6G"), silent)
    assert found.value.whose is Whose.JOB and slurm.changed == []


def test_the_name_of_an_element() -> None:
    own = {"SLURM_JOB_ID": "47"}
    assert this_job(own).named == "47"
    element = {**own, "SLURM_ARRAY_JOB_ID": "46", "SLURM_ARRAY_TASK_ID": "1"}
    assert this_job(element).named == "46_1"
    assert this_job({**element, "SLURM_ARRAY_TASK_ID": "x"}).named == "47"


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


class Made:
    """Stands in for an envelope that was submitted."""

    ticket = "T"


def step_of(job: SlurmJob, *answers: Any, submitted: bool = True) -> main.Step:
    """The step of a job, which never waits: its patience is over at once."""
    daemon: Any = Daemon(*answers)
    made: Any = Made()
    step = main.Step(job, daemon, lambda told: made)
    step._patience_s = 0.0
    step._envelope = made if submitted else None
    return step


def raised(step: main.Step) -> Fault:
    with pytest.raises(Fault) as found:
        step.run()
    return found.value


def test_a_job_that_waits_too_long_leaves_the_daemon_first(monkeypatch: pytest.MonkeyPatch) -> None:
    Slurm(monkeypatch)
    gone = {"vouched": True, "job": {**WAITS, "state": "CANCELLED"}}
    fault = raised(step_of(JOB, {"vouched": True, "job": WAITS}, gone))
    assert fault.whose is Whose.WAIT and "GPU 0: busy" in str(fault)


def test_one_that_starts_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    Slurm(monkeypatch)
    runs, ended = {**WAITS, "state": "RUNNING"}, {"vouched": True, "job": ENDED}
    waits = {"vouched": True, "job": WAITS}
    assert step_of(JOB, waits, {"vouched": True, "job": runs}, ended).run() == 3


@pytest.mark.parametrize("whose", ["job", "place", "node"])
def test_what_the_daemon_says_of_a_fault_counts(
    monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    Slurm(monkeypatch)
    said = {"vouched": True, "fault": whose, "why": "it is so"}
    assert raised(step_of(JOB, said, submitted=False)).whose is Whose(whose)


def test_a_second_step_of_a_slurm_job_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    Slurm(monkeypatch)
    fault = raised(step_of(JOB, {"vouched": True, "earlier": "job 17 (COMPLETED)"}))
    assert fault.whose is Whose.JOB and "job 17 (COMPLETED)" in str(fault)


def test_a_dead_daemon_is_the_nodes_fault_after_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm, now = Slurm(monkeypatch), [0.0]
    monkeypatch.setattr(main.time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(attempt, "wait", wait)
    step = step_of(JOB, *[Unreachable("down")] * 200)
    step._patience_s = 1800.0
    fault = raised(step)
    assert fault.whose is Whose.NODE and 60 <= now[0] < 70
    assert [line.partition("Comment=")[2][:14] for line in slurm.changed] == ["radrm: waits: "]
    assert capsys.readouterr().err.count("does not answer, waiting") == 1


def test_a_step_that_has_run_its_job_bears_a_daemon_that_refuses_it_for_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new daemon asks slurmd who the step is, and slurmd may be down."""
    Slurm(monkeypatch)
    refused, answer = Refused("Slurm does not say"), {"vouched": True, "job": ENDED}
    for errors, code in ([refused] * 100, 3), ([Unreachable("down")] * 300, 3):
        own = step_of(JOB, *errors, answer)
        own._served = 1  # its attempt has run
        assert own.run() == code
    own = step_of(JOB, *[refused] * 200)
    own._served = 1
    with pytest.raises(Refused):
        own.run()
    assert capsys.readouterr().err.count("which asks again: Slurm does not say") == 2


def test_the_step_waits_until_slurm_knows_what_its_job_has_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Slurm(monkeypatch)
    telling = {"vouched": True, "job": ENDED, "telling": True}
    own = step_of(JOB, telling, telling, {"vouched": True, "job": ENDED, "telling": False})
    own._served = 1
    daemon: Any = own._client
    assert own.run() == 3 and daemon.answers == []


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (["JobId=47 Restarts=1"], "preempted"),
        (["JobId=47 Restarts=0 Reason=TimeLimit"], "timeout"),
        (["JobId=47 Restarts=0"], "cancelled"),
        ([None, "JobId=47 Restarts=1"], "preempted"),  # a busy controller
    ],
)
def test_why_slurm_ends_a_job(
    monkeypatch: pytest.MonkeyPatch, answers: list[str | None], reason: str
) -> None:
    Slurm(monkeypatch)

    def shown(named: str, timeout_s: float) -> dict[str, str]:
        if (answer := answers.pop(0)) is None:
            raise Refused("scontrol has not answered")
        return programs.record(answer)

    monkeypatch.setattr(main, "shown", shown)
    monkeypatch.setattr(returning, "_PAUSE_S", 0.0)
    assert main.why_ending(JOB).reason == reason


@pytest.mark.parametrize(
    ("end", "signals", "gone"),
    [
        ({"signal": 15, "code": None}, [signal.SIGCHLD, signal.SIGTERM], True),
        ({"signal": None, "code": 143}, [signal.SIGTERM], True),
        ({"signal": 15, "code": None}, [signal.SIGCHLD], False),  # somebody else's
        ({"signal": None, "code": 0}, [], False),
    ],
)
def test_a_term_that_reaches_the_step_after_the_end_of_its_job_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, end: dict[str, int | None], signals: list[int], gone: bool
) -> None:
    Slurm(monkeypatch)
    last: list[attempt.Gone | None] = []
    ended = type("Ended", (), {"has_ended": True})()
    monkeypatch.setattr(attempt, "start", lambda folder: ended)
    monkeypatch.setattr(attempt, "close", lambda folder, gone: last.append(gone))
    monkeypatch.setattr(attempt.attempts, "read_record", lambda folder, name: (end, None))

    def wait(seconds: float) -> int | None:
        assert seconds > 0 or not signals
        return signals.pop(0) if signals else None

    monkeypatch.setattr(attempt, "wait", wait)
    step_of(JOB, {"vouched": True})._run_attempt("/folder", 7)
    assert [each is not None for each in last] == [gone]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], Slurm]:
    """Begin a step whose daemon cannot be asked, for this reason."""
    slurm = Slurm(monkeypatch)
    monkeypatch.setattr(main, "this_job", lambda environ: JOB)
    monkeypatch.setattr(attempt, "block", lambda: None)

    def run(error: Exception) -> Slurm:
        def refuse(*_: object) -> None:
            raise error

        monkeypatch.setattr(main, "daemon_home", refuse)
        main.main("train.sh")
        return slurm

    return run


@pytest.mark.parametrize("error", [BadConfig("slurm.home"), OSError(28, "No space left")])
def test_a_step_that_cannot_begin_gives_its_job_back(
    begun: Callable[[Exception], Slurm], error: Exception
) -> None:
    assert begun(error).changed[0] == "scontrol requeue 46_1"


def test_a_fault_of_the_job_ends_it(begun: Callable[[Exception], Slurm]) -> None:
    with pytest.raises(Fault, match="line 3"):
        begun(BadFile("line 3"))


def test_a_runner_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt.attempts, "read_record", lambda *_: ({"token": "t"}, None))
    with pytest.raises(Refused, match="No such file"):
        attempt.start(str(tmp_path / "none"))
