"""Other forms of traces: what becomes of each, what is drawn, and what is left out."""

from __future__ import annotations

from collections import Counter

import pytest

from radrm.errors import BadFile, UsageError
from radrm.lab.simulator.traces.draw import TYPICAL, Fill, read_fill
from radrm.lab.simulator.traces.importers.aids import Aids, Alone, joined, moment, read_profile
from radrm.lab.simulator.traces.importers.forms import read_any
from radrm.lab.simulator.traces.importers.slurm import gpus_of
from radrm.lab.simulator.traces.trace import Trace
from tests.paths import REPOSITORY, SHARED_DATA

needs_data = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the development data is not here")


def read(text: str, form: str = "auto", aids: Aids | None = None) -> Trace:
    return read_any(text.splitlines(keepends=True), "t", form, aids)


# ------------------------------------------------------------------ published

PUBLISHED = """\
submit_s,job_name,model,dataset,batch_size,num_gpus,exclusive_duration_s,memory_mb,horus_mb,\
faketensor_mb,gpumemnet_mb,exclusive_duration_cmd_s
0,vgg9,vgg16,ImageNet,128,1,1000,20000,40000,5000.5,,1000
30,small,resnet18,cifar100,32,1,500,2000,2300,50,8000,200
60,pair,gpt2_large,Wiki,8,2,4000,28000,40000,40000,40000,4000
"""


def test_the_thesis_s_form_with_a_profile() -> None:
    aids = Aids(profile={"vgg9": Alone(smact=0.9, steady_mib=25000)})
    vgg, small, pair = (found := read(PUBLISHED, aids=aids)).jobs
    assert (vgg.duration_s, vgg.smact, vgg.family, vgg.batch_size) == (1060, 0.9, "vgg", 128)
    assert vgg.steady_mib == 20000  # never above the peak
    assert vgg.estimates == {"horus": 2**30, "faketensor": 5000.5}  # 40000: a whole device
    assert (small.duration_s, small.smact, small.family) == (260, 0.30, "light")
    assert (pair.gpus, pair.family) == (2, "transformer")
    assert found.notes and "2 jobs" in found.notes[0] and "guessed" in found.notes[0]


def test_a_profile_may_be_a_trace_and_later_ones_win() -> None:
    one = read_profile(["name,duration_s,smact\n", "a,100,0.5\n", "a,999,0.9\n"], "p")
    two = read_profile(["job_name,steady_mem_mb,smact\n", "a,700,\n", "b,,0.25\n"], "q")
    assert joined([one, two]) == {"a": Alone(100, 0.5, 700), "b": Alone(smact=0.25)}
    assert read_profile(PUBLISHED.splitlines(), "p")["small"] == Alone(duration_s=260)
    with pytest.raises(BadFile, match=r"p line 2: smact '7'"):
        read_profile(["name,smact\n", "a,7\n"], "p")


# ------------------------------------------------------------------ philly

PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66,vc1
2017-10-09 07:00:55,100.0,4,400,vc2
2017-10-09 08:00:00,0.0,1,0,vc2
2017-10-09 09:00:00,5,0,0,vc2
"""


def test_philly_by_a_table_of_ones_own() -> None:
    fill = read_fill(["memory_mib,smact,family,batch_size\n", "5000,0.5,cnn,64\n"], "f")
    first, second = (found := read(PHILLY, aids=Aids(fill=fill))).jobs
    assert (first.gpus, first.submit_s, first.duration_s, first.user) == (4, 0, 100, "vc2")
    assert (second.submit_s, second.memory_mib, second.smact, second.batch_size) == (
        *(60, 5000, 0.5),
        64,
    )
    assert "seed 0" in found.notes[0] and "2 jobs that never ran" in found.notes[1]


def test_what_is_drawn_follows_the_shares_and_the_seed_alone() -> None:
    drawn = Counter(Fill(seed=3).draw(place) for place in range(20_000))
    whole = sum(kind.share for kind in TYPICAL)
    for kind in TYPICAL:
        assert drawn[kind] / 20_000 == pytest.approx(kind.share / whole, abs=0.015)
    assert [Fill(seed=3).draw(i) for i in range(50)] == [Fill(seed=3).draw(i) for i in range(50)]
    assert [Fill(seed=3).draw(i) for i in range(50)] != [Fill(seed=4).draw(i) for i in range(50)]


def test_a_table_of_typical_jobs_that_cannot_be_used() -> None:
    for text, words in (
        ("memory_mib,smact\n-5,0.5\n", "line 2: memory_mib"),
        ("memory_mib,smact,family\n5,0.5,cat\n", "family 'cat'"),
        ("memory_mib,smact\n", "holds no kind"),
        ("memory_mib\n5\n", "no column smact"),
    ):
        with pytest.raises(BadFile, match=words):
            read_fill(text.splitlines(keepends=True), "f")


# ------------------------------------------------------------------ slurm


def test_the_example_from_slurm() -> None:
    found = read((REPOSITORY / "examples/traces/sacct.txt").read_text())
    resnet, sweep, gpt, bert = found.jobs
    assert (resnet.name, resnet.user, resnet.gpus, resnet.duration_s) == ("resnet", "ada", 1, 2400)
    assert (resnet.memory_mib, resnet.smact) == (8200, 0.62)
    assert (gpt.gpus, gpt.memory_mib, gpt.submit_s) == (2, 26000, 600)
    assert sweep.memory_mib in {kind.memory_mib for kind in TYPICAL}
    assert bert.duration_s == 1500  # it failed, and held its GPU until then
    assert "2 of 4 jobs" in found.notes[0]
    assert "1 without" not in found.notes[1] and "2 jobs without a GPU" in found.notes[1]


def test_other_columns_of_slurm() -> None:
    text = (
        "JobID|Submit|Elapsed|State|AllocGRES|\n7|2024-01-01T00:00:00|1-02:03:04|COMPLETED|gpu:2|\n"
    )
    (job,) = read(text).jobs
    assert (job.gpus, job.duration_s, job.name) == (2, 93784, "job-2")
    with pytest.raises(BadFile, match=r"no column Submit.*print them with: sacct"):
        read("JobID|State\n", "slurm")
    with pytest.raises(BadFile, match=r"t line 2: Elapsed '7h' is not"):
        read(text.replace("1-02:03:04", "7h"))


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("billing=8,cpu=8,gres/gpu=2,mem=32G", 2),
        ("cpu=8,gres/gpu:a100=2,gres/gpu=2", 2),
        ("gres/gpu:a100=2,gres/gpu:t4=1", 3),
        ("gres/gpumem=8G,gres/gpuutil=50", 0),
        ("gpu:a100:4(IDX:0-3)", 4),
        ("gpu:2", 2),
        ("gpu", 0),
        ("", 0),
    ],
)
def test_gpus_of_slurm(tres: str, gpus: int) -> None:
    assert gpus_of(tres) == gpus


def test_moments() -> None:
    assert moment("1970-01-02 00:00:01") == 86401
    assert moment("2024-02-29T12:00:00Z") == 1709208000
    assert moment("2000-03-01 00:00:00") - moment("2000-02-28 00:00:00") == 2 * 86400
    assert moment("12.5") == 12.5
    for bad in ("2024-13-01 00:00:00", "2023-02-29 00:00:00", "Unknown", "", "nan"):
        with pytest.raises(ValueError, match="time"):
            moment(bad)


# ------------------------------------------------------------------ any


def test_an_unknown_form() -> None:
    with pytest.raises(UsageError, match="there are: trace, published, philly, slurm"):
        read("a", "csv")


@needs_data
def test_the_traces_of_the_thesis() -> None:
    with open(SHARED_DATA / "measured/measured_solo_profile_a100.csv") as file:
        profile = read_profile(file, "profile")
    for name, jobs, guesses in (("heavy60", 60, 0), ("mix90", 90, 61)):
        found = read((SHARED_DATA / f"traces/{name}.csv").read_text(), aids=Aids(profile=profile))
        assert len(found.jobs) == jobs
        assert not guesses or f"{guesses} jobs" in found.notes[0]
        assert {len(job.estimates) for job in found.jobs} == {3}


@needs_data
def test_the_sample_of_philly() -> None:
    found = read((SHARED_DATA / "public/philly_sample_500.csv").read_text())
    assert len(found.jobs) == 500 and {job.gpus for job in found.jobs} <= {1, 2, 4}
