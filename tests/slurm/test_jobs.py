"""What Slurm says of jobs, as users read it."""

from __future__ import annotations

import pytest

from radrm.cli.main import end
from radrm.config import SlurmConfig
from radrm.errors import Refused
from radrm.slurm import jobs
from radrm.slurm.asking import SlurmRefused, is_in_job, jobs_of, pids_in, record
from radrm.slurm.comment import added_min, returned
from radrm.slurm.jobs import listed
from radrm.slurm.outer import count_in, moment, told_of

LISTED = """\
PID      JOBID    STEPID   LOCALID GLOBALID
27150    47       batch    0       0
27153    47       batch    -       -
9        4        batch    0       0
x        47       batch    0       0
"""


def test_the_pids_of_a_job() -> None:
    assert pids_in(LISTED, "47") == {27150, 27153}
    assert pids_in(LISTED, "4") == {9}
    assert pids_in("", "47") == set()


@pytest.mark.parametrize(
    ("group", "found"),
    [
        ("/slurm/uid_1000/job_47/step_batch/task_0", {"47"}),
        ("/slurm_g1/uid_0/job_47", {"47"}),
        ("/system.slice/slurmstepd.scope/job_47/step_batch/user/task_0", {"47"}),
        ("/system.slice/g1_slurmstepd.scope/job_47/step_0", {"47"}),
        ("/user.slice/user-1000.slice/user@1000.service/slurm/uid_1000/job_47", set()),
        ("/user.slice/system.slice/slurmstepd.scope/job_47", set()),
        ("/system.slice/my.scope/job_47", set()),
        ("/slurm/uid_1000/job_47x", set()),
    ],
)
def test_only_groups_that_slurm_makes_count(group: str, found: set[str]) -> None:
    """Users can make groups of any name below their own."""
    assert jobs_of(["/", group]) == found


def test_without_groups_slurm_is_asked() -> None:
    asked: list[tuple[str, ...]] = []

    def said(*words: str, timeout_s: float) -> str:
        asked.append(words)
        return LISTED

    assert is_in_job(27153, "47", lambda pid: ["/"], said)
    assert not is_in_job(9, "47", lambda pid: ["/"], said, node="g1")
    pids = ("scontrol", "listpids", "47")
    assert asked == [pids, (*pids, "g1")]
    asked.clear()
    assert is_in_job(27150, "47", lambda pid: ["/slurm/uid_1000/job_47"], said)
    assert not is_in_job(27150, "47", lambda pid: ["/slurm/uid_0/job_48"], said)
    assert asked == []


def test_what_the_controller_says_of_a_job() -> None:
    text = (
        "JobId=47 JobName=my job UserId=ada(1000) Partition=shared BatchHost=g1 RunTime=00:01:30 "
        "TimeLimit=1-00:00:00 AdminComment=radrm: waits: x (limit +30 min, returned 2 of 3 times)  "
        "Comment=site:47 TresPerNode=gres:gpumem:9000"
    )
    told = told_of("46_1", record(text), "gpumem")
    assert (told.id, told.uid, told.node, told.name) == ("47", 1000, "g1", "my job")
    assert (told.limit_s, told.ran_s, told.gpumem_mib) == (86400.0, 90.0, 9000)
    assert (returned(told.note), added_min(told.note)) == (2, 30)
    assert told_of("4", record("JobId=4 TimeLimit=UNLIMITED UserId=x"), "gpumem").limit_s is None


def test_a_record_with_spaces_in_its_values() -> None:
    line = "JobId=7 JobName=my job Comment=radrm: waits: a=b c Reason=None X/y=1 StdOut=/a b.out\n"
    found = record(line)
    assert found["JobName"] == "my job"
    assert found["Comment"] == "radrm: waits: a=b c"
    assert (found["Reason"], found["StdOut"]) == ("None", "/a b.out")


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("gres:gpumem:6144", 6144),
        ("gres:gpu:2,gres:gpumem:7168", 7168),
        ("gres:gpumem:2K", 2048),
        ("cpu=1,mem=1G,gres/gpumem=5", 5),
        ("gres:gpu:2", None),
        ("gres:mygpumem:5", None),
        ("N/A", None),
    ],
)
def test_what_a_job_asks_for(text: str, mib: int | None) -> None:
    assert count_in(text, "gpumem") == mib


def test_rows_of_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = "radrm: waits: GPU 0: busy (returned 0 of 3 times)"
    none = ("(null)", "")
    rows = [
        (
            "4_1",
            "ada",
            "PENDING",
            "",
            "gres:gpumem:10",
            "0:00",
            "1:00",
            "Resources",
            "a|b",
            *none,
        ),
        (
            "5",
            "bob",
            "RUNNING",
            "g1",
            "gres:gpumem:10",
            "0:09",
            "1:00",
            "None",
            "x\ty",
            "site:7",
            wait,
        ),
        ("6", "bob", "RUNNING", "g1", "N/A", "0:09", "1:00", "None", "x", "", "radrm:gpu_s=1"),
    ]
    text = "".join("".join(f"{word:<12}\x1f" for word in row) + "\n" for row in rows) + "broken\n"
    monkeypatch.setattr(jobs, "run", lambda *words, timeout_s: text)
    found = listed(SlurmConfig())
    assert [(r.id, r.state, r.node, r.gpumem_mib, r.reason) for r in found] == [
        ("4_1", "PENDING", None, 10, "Resources"),
        ("5", "WAITING", "g1", 10, "GPU 0: busy"),
        ("6", "RUNNING", "g1", None, None),
    ]


def test_dates_of_slurm() -> None:
    assert moment("Unknown") is None and moment("") is None
    at_s = moment("2026-11-23T23:05:44")
    assert abs(at_s - 1_795_475_144) < 86_400


def test_each_line_that_slurm_says_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def refused() -> int:
        raise SlurmRefused("squeue: error: a\nsqueue: fatal: b")

    with pytest.raises(SystemExit):
        end(refused)
    assert capsys.readouterr().err == "radrm: squeue: error: a\nradrm: squeue: fatal: b\n"


@pytest.mark.parametrize(("user", "uid"), [("alice(1000)", 1000), ("a(2)b(7)", 7), ("alice", None)])
def test_a_log_is_of_the_jobs_user(
    user: str, uid: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path may lead to a file that only the reader can read: see client/tail.py."""
    monkeypatch.setattr(jobs, "the_job", lambda _: {"StdOut": "/x/slurm-1.out", "UserId": user})
    if uid is None:
        with pytest.raises(Refused, match="names no user"):
            jobs.log_of("1", False)
    else:
        assert jobs.log_of("1", False) == ("/x/slurm-1.out", uid)
