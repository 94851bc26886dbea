"""Other forms of traces: what becomes of each, what is drawn, and what is left out."""

from __future__ import annotations

from collections import Counter

import pytest

from radrm.errors import BadFile, UsageError
from radrm.jobfile.radfile import JobFile, read_job_file
from radrm.lab.simulator.traces.draw import TYPICAL, Fill, read_fill
from radrm.lab.simulator.traces.importers.aids import Aids, Alone, joined, moment, read_profile
from radrm.lab.simulator.traces.importers.forms import read_any
from radrm.lab.simulator.traces.importers.gavel import read_throughputs
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


# ------------------------------------------------------------------ the prototype's script

JOB = (
    b"conda activate tf\npython train.py\nvgg_128.model\nimagenet\n128\nexclusive\n1\n"
    b"24408\n40000\n"
)
SCRIPT = """\
#!/bin/bash
# a scenario
sleep 10
python src/submit.py --task workloads/one.rad
sleep 1m
python src/submit.py --task workloads/two.rad &
"""


def job_file(path: str) -> JobFile:
    return read_job_file(JOB, path, {})


def test_the_prototype_s_script() -> None:
    aids = Aids({name: Alone(duration_s=100) for name in ("one", "two")}, job_file=job_file)
    one, two = read(SCRIPT, aids=aids).jobs
    assert (one.name, one.submit_s, two.name, two.submit_s) == ("one", 0, "two", 60)
    assert (one.memory_mib, one.gpus, one.family, one.batch_size) == (24408, 1, "vgg", 128)
    assert one.estimates == {"horus": 2**30} and one.smact == 0.87


def test_a_script_that_tells_too_little() -> None:
    with pytest.raises(BadFile, match=r"t line 4: the duration of 'one' is unknown; add --prof"):
        read(SCRIPT, aids=Aids(job_file=job_file))
    with pytest.raises(BadFile, match=r"t line 2: 'rm -rf /' is neither"):
        read("sleep 5\nrm -rf /\n", "prototype")
    with pytest.raises(
        BadFile, match=r"^a\.rad is a job file, not a trace; submit it: radrm submit"
    ):
        read_any(["#!/bin/bash\n", "python train.py\n"], "a.rad", "prototype", None)
    with pytest.raises(BadFile, match="no folder to read it from"):
        read("python submit.py --task a.rad\n", aids=Aids({"a": Alone(5)}))


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
    for bad in ("2024-13-01 00:00:00", "Unknown", "", "nan"):
        with pytest.raises(ValueError, match="time"):
            moment(bad)


# ------------------------------------------------------------------ alibaba

TASKS = """\
a,worker,2.0,Terminated,1000.0,4000.0,600.0,30.0,50.0,MISC
a,evaluator,1.0,Terminated,3000.0,4600.0,600.0,30.0,100.0,MISC
a,ps,1.0,Terminated,1000.0,4000.0,600.0,30.0,,
b,worker,4.0,Failed,500.0,800.0,600.0,30.0,100.0,V100
c,worker,1.0,Running,500.0,,600.0,30.0,100.0,V100
d,worker,,Terminated,500.0,700.0,600.0,30.0,100.0,V100
"""
NAMES = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type"
BESIDE = {
    "pai_job_table.csv": "a,1,ada,Terminated,900.0,4600.0\nz,1,bob,Terminated,,\n",
    "pai_sensor_table.csv": (
        "a,worker,w0,1,m,/dev/nvidia0,140,30.0,1,1,2,4.0,1,1,1,1\n"
        "a,worker,w1,1,m,/dev/nvidia0,140,,1,1,2,3.0,1,1,1,1\n"
        "z,worker,w2,1,m,/dev/nvidia0,140,90,1,1,2,9.0,1,1,1,1\n"
    ),
}


def test_the_jobs_of_alibaba_2020_with_the_tables_beside() -> None:
    beside = {name: text.splitlines(keepends=True) for name, text in BESIDE.items()}
    found = read(TASKS, "alibaba2020", Aids(beside=beside.get))
    b, a = found.jobs
    assert (b.name, b.gpus, b.duration_s, b.submit_s, b.user) == ("b", 4, 300, 0, "user")
    assert (a.name, a.gpus, a.duration_s, a.submit_s, a.user) == ("a", 2, 3600, 400, "ada")
    # Three instances of 4 GiB and 30 % each use two GPUs.
    assert a.memory_mib == 4096 * 3 / 2 and a.smact == pytest.approx(0.45)
    assert "1 tasks without a GPU and 2 whose" in found.notes[0] and "1 of 2 jobs" in found.notes[1]


def test_alibaba_2020_alone_with_and_without_names() -> None:
    named, bare = read(f"{NAMES}\n{TASKS}"), read(TASKS, "alibaba2020")
    assert [job.submit_s for job in bare.jobs] == [0, 500]
    assert [job.line for job in named.jobs] == [job.line + 1 for job in bare.jobs]
    assert "all jobs" in bare.notes[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BESIDE["pai_job_table.csv"], "t line 1: 6 values, and this table has 10: job_name, "),
        ("job_name,inst_id,user,status,start_time,end_time\n", "name pai_task_table.csv"),
        (TASKS.replace("4000.0", "soon", 1), "t line 1: end_time 'soon' is not a number"),
        (TASKS + "e,worker\n", "t line 7: has 2 values for the 10 columns"),
    ],
)
def test_what_alibaba_2020_cannot_use(text: str, said: str) -> None:
    with pytest.raises(BadFile, match=said):
        read(text, "alibaba2020")


PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,\
scheduled_time
p1,6000,12288,1,460,,LS,Running,100,900,150
p2,6000,12288,8,1000,V100M16|V100M32,BE,Succeeded,90,700,100
p3,6000,12288,0,0,,LS,Running,0,900,10
p4,6000,12288,1,1000,,BE,Pending,0,900,
"""


def test_the_pods_of_alibaba_2023() -> None:
    fill = read_fill(["memory_mib,smact\n", "5000,0.9\n"], "f")
    p2, p1 = (found := read(PODS, aids=Aids(fill=fill))).jobs
    assert (p2.name, p2.gpus, p2.duration_s, p2.smact, p2.user) == ("p2", 8, 600, 0.9, "BE")
    # `memory_mib` is the host's; a requested part of a GPU limits the SM activity.
    assert (p1.submit_s, p1.duration_s, p1.memory_mib, p1.smact) == (10, 750, 5000, 0.46)
    assert "1 pods without a GPU and 1 that never ran" in found.notes[1]
    with pytest.raises(BadFile, match=r"t line 2: num_gpu '1\.5' is not a whole number"):
        read(PODS.replace("12288,1,460", "12288,1.5,460"))


# ------------------------------------------------------------------ gavel

STEPS = """{"k80": {"('net (batch size 64)', 1)": {"null": 1.0}},
    "v100": {"('net (batch size 64)', 1)": {"null": 2.0, "('net (batch size 64)', 1)": [1, 1]},
             "('net (batch size 64)', 2)": {"null": 4}, "('slow', 1)": {"null": -1},
             "('A3C', 1)": {"null": 0.5}, "('odd', 1)": []}}"""
GAVEL = (
    "net (batch size 64)\trun %s\tfolder\t-n\t1\t1000\t2\t1\t-1.0\t7\n"
    "A3C\trun\trl\t-n\t0\t100\t1\t1\t-1.0\t5.5\n"
    "slow\trun\trl\t-n\t0\t100\t1\t1\t-1.0\t5.5\n\n"
    "A3C\trun\trl\t-n\t0\t0\t1\t1\t-1.0\t6\n"
)


def test_the_jobs_of_gavel() -> None:
    profile = joined([read_throughputs(STEPS, "s"), {"A3C": Alone(smact=0.125)}])
    a3c, net = (found := read(GAVEL, aids=Aids(profile=profile))).jobs
    assert (a3c.name, a3c.submit_s, a3c.duration_s, a3c.smact) == ("A3C", 0, 200, 0.125)
    assert (net.submit_s, net.duration_s, net.gpus, net.batch_size) == (1.5, 250, 2, 64)
    assert "1 jobs without a step" in found.notes[1] and "first: ('slow', 1)" in found.notes[2]


def test_earlier_versions_of_gavel() -> None:
    aids = Aids(profile=read_throughputs(STEPS, "s"))
    text = "A3C\trun\t-n\t100\t0\t1\nnet (batch size 64)\trun\t-n\t1\t100\t30.0\t2\n"
    assert [(j.submit_s, j.duration_s, j.gpus) for j in read(text, aids=aids).jobs] == [
        (0, 200, 1),
        (30, 25, 2),
    ]


def test_one_type_of_job_has_one_kind_of_drawn_values() -> None:
    rows = [f"{name}\trun\t-n\t100\t{at}\t1" for at, name in enumerate("abcabcabc")]
    profile = {f"('{name}', 1)": Alone(steps_per_s=1.0) for name in "abc"}
    found = {(j.name, j.memory_mib) for j in read("\n".join(rows), aids=Aids(profile)).jobs}
    assert len(found) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GAVEL, "the steps a second of .'net .batch size 64.', 2. are unknown, as of all"),
        ("a\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\n", "t line 1: has 13 values between tabs"),
        ("A3C\trun\t-n\tmany\t0\t1\n", "t line 1: total_steps 'many' is not a number"),
        ("x" * 70_000, "t line 1: longer than 65536"),
    ],
)
def test_what_gavel_cannot_use(text: str, said: str) -> None:
    with pytest.raises(BadFile, match=said):
        read(text, "gavel")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"v100": 3}', "[" * 100_000])
def test_throughputs_that_cannot_be_read(text: str) -> None:
    with pytest.raises(BadFile, match="s: not "):
        read_throughputs(text, "s")


# ------------------------------------------------------------------ any


def test_an_unknown_form() -> None:
    with pytest.raises(UsageError, match="there are: trace, published, prototype, philly, slurm"):
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
