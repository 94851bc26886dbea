"""What ended jobs have used, from sacct's rows and from completion logs."""

from __future__ import annotations

import pytest

from radrm.config import SlurmConfig
from radrm.errors import Refused
from radrm.slurm import accounts
from radrm.slurm.accounts import ended_runs, of_completions, of_sacct, sums
from radrm.slurm.asking import SlurmRefused
from radrm.slurm.comment import Use

CONFIG = SlurmConfig()
ROWS = [
    ("7", "ada", "vision", "g1", "COMPLETED", "3600", "2026-11-23T12:00:00"),
    ("8", "ada", "vision", "g2", "FAILED", "1800", "2026-11-23T13:00:00"),
    ("9_1", "bob", "", "g1", "CANCELLED by 0", "60", "2026-11-24T01:00:00"),
    ("10", "bob", "", "g1", "RUNNING", "60", "Unknown"),
]
ASKED = "billing=1,cpu=1,gres/gpumem=10240,mem=1G,node=1"
COMMENTS = ["radrm:gpu_s=3000,smact=0.5,peak_mib=9000,energy_j=7200", "radrm:gpu_s=1000,smact=0.1"]
SACCT = "\n".join(
    "\x1f".join((*row, ASKED, comment))
    for row, comment in zip(ROWS, [*COMMENTS, "my note", ""], strict=True)
)
LOG = """\
JobId=1 UserId=ada(1000) GroupId=ada(1000) Name=my job JobState=COMPLETED Partition=shared \
TimeLimit=UNLIMITED StartTime=2026-11-23T12:00:00 EndTime=2026-11-23T12:10:00 NodeList=g1 \
NodeCnt=1 ProcCnt=1 WorkDir=/x ReservationName= Tres=cpu=1,mem=100M,node=1,gres/gpumem=2048 \
Account= QOS= WcKey= Cluster=c SubmitTime=2026-11-23T12:00:00 ExitCode=0:0
JobId=2 UserId=ada(1000) Name=x JobState=COMPLETED Partition=whole \
StartTime=2026-11-23T12:00:00 EndTime=2026-11-23T12:10:00 NodeList=g1
JobId=3 UserId=bob(1001) Name=x JobState=CANCELLED Partition=shared StartTime=Unknown \
EndTime=2026-11-23T12:10:00 NodeList=(null) Account=(null)
broken
"""


def test_the_sums_of_users() -> None:
    ada, bob = sums(of_sacct(SACCT, CONFIG), "user")
    assert (ada.name, ada.runs, ada.completed, ada.measured) == ("ada", 2, 1, 2)
    assert (ada.gpu_s, ada.peak_mib, ada.energy_j) == (4000, 9000, 7200)
    assert ada.smact == pytest.approx(0.4)  # by GPU time
    assert ada.gpumem_gib_h == pytest.approx(15.0)
    assert (bob.runs, bob.measured, bob.gpu_s, bob.smact, bob.energy_j) == (1, 0, None, None, None)


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("account", ["vision", "-"]),
        ("node", ["g1", "g2"]),
        ("day", ["2026-11-23", "2026-11-24"]),
    ],
)
def test_sums_by_something_else(by: str, names: list[str]) -> None:
    assert [row.name for row in sums(of_sacct(SACCT, CONFIG), by)] == names


def test_a_completion_log_knows_times_and_what_was_asked() -> None:
    first, second = of_completions(LOG, CONFIG)
    assert (first.user, first.state, first.elapsed_s) == ("ada", "COMPLETED", 600)
    assert (first.node, first.gpumem_mib, first.use, first.account) == ("g1", 2048, None, "")
    assert (second.user, second.elapsed_s, second.node, second.gpumem_mib) == ("bob", 0, "", None)


def test_a_broken_row_is_left_out() -> None:
    assert of_sacct("x\n\x1f\x1f", CONFIG) == []


def test_other_refusals_of_sacct_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*words: str, timeout_s: float = 0.0) -> str:
        raise SlurmRefused("sacct: error: Problem talking to the database: Connection refused")

    monkeypatch.setattr(accounts, "run", run)
    with pytest.raises(SlurmRefused, match="Connection refused"):
        ended_runs(CONFIG, 0.0, 1e12)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("JobCompType = jobcomp/none\n", "keeps no record of ended jobs"),
        ("JobCompType = jobcomp/filetxt\nJobCompLoc = /nowhere/x\n", "cannot be read here"),
    ],
)
def test_without_any_record_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, config: str, said: str
) -> None:
    def run(name: str, *words: str, timeout_s: float = 0.0) -> str:
        if name == "sacct":
            raise SlurmRefused("Slurm accounting storage is disabled")
        return config

    monkeypatch.setattr(accounts, "run", run)
    with pytest.raises(Refused, match=said):
        ended_runs(CONFIG, 0.0, 1e12)


def test_what_was_asked_for_is_unknown_where_slurm_does_not_keep_it() -> None:
    text = SACCT.replace("gres/gpumem=10240,", "")
    assert [row.gpumem_gib_h for row in sums(of_sacct(text, CONFIG), "user")] == [None, None]


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("billing=1,cpu=1,gres/gpumem=9000,mem=1G", 9000),
        ("billing=1,gres/gpumem=9000M,mem=100M", 9000),
        ("gres/gpumem=8G", 8192),
        ("gres/gpumem=1T,node=1", 1 << 20),
        ("gres/gpumem_of=7,gres/other=9", None),
        ("gres/gpumem=9x", None),
        ("", None),
    ],
)
def test_what_sacct_says_was_asked_for(text: str, mib: int | None) -> None:
    assert accounts.accounted_mib(text, "gpumem") == mib


def test_use_without_gpu_time_has_no_mean() -> None:
    run = of_sacct(SACCT, CONFIG)[0]
    (row,) = sums([accounts.ClusterRun("a", "", "", "", 1, 1, None, Use(smact=0.5))], "user")
    assert row.smact is None and run.use is not None
