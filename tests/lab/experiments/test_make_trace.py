"""`radrm trace make`: which submissions are chosen, which kinds, and what cannot be drawn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from radrm.cli.app import make_app
from radrm.errors import BadFile, RadrmError, UsageError
from radrm.lab.simulator.traces.draw import Kind, arrivals, make_trace, parse_mix, read_kinds
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.trace import read_trace
from tests.paths import REPOSITORY

EXAMPLES = REPOSITORY / "examples" / "traces"
TABLE = """\
name,class,share,gpus,duration_s,memory_mib,smact,family,guess_mib
small,light,3,1,60,1000,0.1,tiny,900
middle,light,1,1,600,4000,0.4,cnn,
large,heavy,,2,900,20000,0.9,,
"""


def kinds_of(text: str = TABLE) -> tuple[Kind, ...]:
    return read_kinds(text.splitlines(keepends=True), "k")


def jobs_at(*times_s: float) -> list[TraceJob]:
    return [TraceJob(time_s, "x", 1, 60.0, 1000.0, 0.5) for time_s in times_s]


KINDS = kinds_of(TABLE.replace("heavy,,", "heavy,1,"))
CLASSES = {kind.job.name: kind.of_class for kind in KINDS}


def test_a_table_has_the_columns_of_a_trace() -> None:
    small, middle, large = KINDS
    assert (small.share, small.job.estimates, small.job.family) == (3, {"guess": 900}, "tiny")
    assert (middle.job.estimates, large.job.gpus, large.of_class) == ({}, 2, "heavy")
    trace = kinds_of((EXAMPLES / "afternoon.csv").read_text())
    assert len(trace) == 40 and {kind.share for kind in trace} == {1.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TABLE, r"k line 4: share is missing"),
        (TABLE.replace("0.9", "7"), r"k line 4: smact '7'.* \(?"),
        ("name,gpus\n", "k line 1: no columns duration_s, memory_mib, smact"),
        ("name,gpus,duration_s,memory_mib,smact\n", "k: holds no kind of job"),
    ],
)
def test_a_table_that_cannot_be_used(text: str, said: str) -> None:
    with pytest.raises(BadFile, match=said):
        kinds_of(text)


# ------------------------------------------------------------------ arrivals

TIMES = st.lists(st.floats(0, 1e6), min_size=1, max_size=60).map(sorted)


@given(TIMES, st.integers(1, 60), st.integers(0, 9))
def test_the_chosen_submissions_are_of_the_trace(times: list[float], n: int, seed: int) -> None:
    wanted = min(n, len(times))
    found, there = arrivals(jobs_at(*times), 0.0, float("inf"), wanted, seed)
    assert found == sorted(found) and len(found) == wanted and there == len(times)
    assert not Counter(found) - Counter(times)
    assert (found, there) == arrivals(jobs_at(*times), 0.0, float("inf"), wanted, seed)


def test_the_window_has_its_begin_and_not_its_end() -> None:
    jobs = jobs_at(0, 10, 20, 30, 40)
    assert arrivals(jobs, 10.0, 20.0, None, 0) == ([10, 20], 2)
    with pytest.raises(UsageError, match=r"holds 2 jobs, 3 are needed; .* 5 jobs in 0.0"):
        arrivals(jobs, 10.0, 20.0, 3, 0)
    with pytest.raises(UsageError, match="holds 0 jobs, 1 are needed"):
        arrivals(jobs, 50.0, 20.0, None, 0)


def test_every_submission_is_chosen_equally_often() -> None:
    jobs = jobs_at(*range(20))
    seen = Counter(t for seed in range(2000) for t in arrivals(jobs, 0.0, 99.0, 5, seed)[0])
    assert all(seen[time_s] == pytest.approx(500, abs=90) for time_s in range(20))


# ------------------------------------------------------------------ the mix


@given(
    st.dictionaries(st.sampled_from(["light", "heavy"]), st.integers(1, 100), min_size=1),
    st.integers(1, 80),
    st.integers(0, 9),
)
def test_each_class_has_its_share(mix: dict[str, float], n: int, seed: int) -> None:
    trace = make_trace([float(at) for at in range(n)], KINDS, mix, seed)
    found = Counter(CLASSES[job.name] for job in trace.jobs)
    assert sum(found.values()) == n
    for name, share in mix.items():
        assert abs(found[name] - n * share / sum(mix.values())) < 1
    assert trace == make_trace([float(at) for at in range(n)], KINDS, mix, seed)


def test_the_thesis_mixes_are_exact() -> None:
    names = {"light": 65.0, "medium": 27.0, "heavy": 8.0}
    kinds = read_kinds((EXAMPLES / "kinds.csv").read_text().splitlines(keepends=True), "kinds")
    light = make_trace([0.0] * 90, kinds, names, 0)
    assert light.notes == ("59 light, 24 medium, 7 heavy",)
    heavy = make_trace([0.0] * 60, kinds, {"medium": 83.0, "heavy": 17.0}, 0)
    assert heavy.notes == ("50 medium, 10 heavy",)


def test_kinds_are_drawn_by_their_shares_and_mixed_over_time() -> None:
    mix = {"light": 1.0, "heavy": 1.0}
    jobs = make_trace([float(at) for at in range(8000)], KINDS, mix, 7).jobs
    found = Counter(job.name for job in jobs)
    assert found["small"] == pytest.approx(3000, abs=150)
    early = Counter(CLASSES[job.name] for job in jobs[:4000])
    assert early["light"] == pytest.approx(2000, abs=150)
    assert jobs != make_trace([float(at) for at in range(8000)], KINDS, mix, 8).jobs


def test_without_a_mix_all_kinds_are_drawn() -> None:
    found = Counter(job.name for job in make_trace([0.0] * 5000, KINDS, None, 1).jobs)
    assert found["small"] == pytest.approx(3000, abs=150) and found["large"] > 800


def test_due_times_of_a_table_and_kinds_without_a_share_are_not_drawn() -> None:
    head = "submit_s,name,gpus,duration_s,memory_mib,smact,due_s,share,class\n"
    kinds = kinds_of(head + "5,a,1,60,1000,0.5,99,1,x\n9,b,1,60,1000,0.5,,0,y\n")
    jobs = make_trace([3.0, 8.0], kinds, None, 0).jobs
    assert [(job.name, job.submit_s, job.due_s) for job in jobs] == [("a", 0, None), ("a", 5, None)]
    with pytest.raises(UsageError, match="no kind of class 'y'; there are: x"):
        make_trace([0.0], kinds, {"y": 1.0}, 0)


@pytest.mark.parametrize("text", ["light", "light=", "=3", "light=1,light=2", "a=-1", "a=nan", ""])
def test_a_mix_that_says_nothing(text: str) -> None:
    with pytest.raises(UsageError, match="write each class once with its share, as light=65"):
        parse_mix(text)


def test_a_mix_of_classes_that_the_table_lacks() -> None:
    assert parse_mix("light=65, heavy=35") == {"light": 65, "heavy": 35}
    with pytest.raises(UsageError, match="all shares are 0"):
        parse_mix("light=0")
    with pytest.raises(UsageError, match="no kind of class 'huge'; there are: heavy, light"):
        make_trace([0.0], KINDS, {"huge": 1.0}, 0)
    with pytest.raises(UsageError, match="it has no column class"):
        bare = kinds_of("name,gpus,duration_s,memory_mib,smact\na,1,60,1000,0.5\n")
        make_trace([0.0], bare, {"huge": 1.0}, 0)


# ------------------------------------------------------------------ the command


def run(*words: str) -> Any:
    found = CliRunner().invoke(make_app("trace"), ["trace", "make", *words])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def test_the_command_draws_a_trace_that_can_be_read(tmp_path: Path) -> None:
    words = (str(EXAMPLES / "afternoon.csv"), "--kinds", str(EXAMPLES / "kinds.csv"))
    options = ("--jobs", "20", "--hours", "1", "--mix", "light=3,heavy=1", "--from", "5m")
    found = run(*words, *options)
    jobs = read_trace(found.stdout.splitlines(keepends=True), "t").jobs
    assert len(jobs) == 20 and jobs[0].submit_s == 0
    assert "20 of " in found.stderr and "15 light, 5 heavy" in found.stderr
    path = tmp_path / "saved.csv"
    assert run(*words, *options, "--save", str(path)).stdout == ""
    assert path.read_text() == found.stdout
    assert run(*words, *options, "--seed", "1").stdout != found.stdout


@pytest.mark.parametrize("hours", ["nan", "inf", "-inf", "-1", "1e400"])
def test_hours_that_are_no_length(hours: str) -> None:
    found = run("x.csv", "--kinds", "k.csv", f"--hours={hours}")
    assert found.exit_code == 2 and "--hours" in found.stderr


def test_a_window_that_is_no_time() -> None:
    with pytest.raises(RadrmError, match="--from: 'soon' is not a duration"):
        run("x.csv", "--kinds", "k.csv", "--from", "soon")
