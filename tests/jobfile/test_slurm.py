"""Options of sbatch become ours, are left out with a note, or are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import UsageError
from radrm.jobfile.parsing import typed_whole
from radrm.jobfile.slurm import (
    _FLAGS,
    _IGNORED,
    _LONG,
    _MAYBE,
    _MEANINGS,
    _REFUSED,
    Slurm,
    directives,
    parse_memory,
    parse_time,
    read,
    translate,
)


def sbatch(*words: str) -> Slurm:
    options, rest = read(words, "command line")
    assert not rest
    return translate(options, "/home/ada", "box")


OUTPUT = {"output": "slurm-%j.out"}
TABLE = {
    ("-J", "train"): {"name": "train"},
    ("-Jtrain",): {"name": "train"},
    ("--job-name=train",): {"name": "train"},
    ("--gpus=2",): {"gpus": "2"},
    ("-G", "a100:2"): {"gpus": "2", "gpu-type": "a100"},
    ("--gres=gpu",): {"gpus": "1"},
    ("--gres=gpu:3",): {"gpus": "3"},
    ("--gres=gpu:a100",): {"gpus": "1", "gpu-type": "a100"},
    ("--gres=gpu:a100:2",): {"gpus": "2", "gpu-type": "a100"},
    ("--gres=none",): {"gpus": "0"},
    ("--gres=gpu:2", "--gpus-per-node=2"): {"gpus": "2"},
    ("-t", "90"): {"time": "5400s"},
    ("-t", "1:30"): {"time": "90s"},
    ("-t", "1:30:00"): {"time": "5400s"},
    ("-t", "2-0"): {"time": "172800s"},
    ("-t", "1-2:30"): {"time": "95400s"},
    ("-t", "UNLIMITED"): {},
    ("-c", "4"): {"cpus": "4"},
    ("-c4",): {"cpus": "4"},
    ("--mem=16G",): {"memory": "16384M"},
    ("--mem=1000",): {"memory": "1000M"},
    ("--mem=1000K",): {"memory": "1M"},
    ("--mem-per-cpu=2G", "-c", "3"): {"cpus": "3", "memory": "6144M"},
    ("--mem-per-gpu=10G", "-G2"): {"gpus": "2", "memory": "20480M"},
    ("-a", "0-9%2"): {"array": "0-9%2", "output": "slurm-%A_%a.out"},
    ("-o", "%x-%J.%t"): {"output": "%x-%j.0"},
    ("-o", "a", "-e", "b"): {"output": "a", "error": "b"},
    ("-d", "afterok:12:13,afterany:14"): {"after": ["12", "13", "14:any"]},
    ("-d", "afternotok:12_3"): {"after": ["12_3:failed"]},
    ("-D", "/data"): {"chdir": "/data"},
    ("--export=ALL,A=1,B=x y",): {"env": ["A=1", "B=x y"]},
    ("--nice",): {"priority": "-100"},
    ("--nice=5000",): {"priority": "-1000"},
    ("--nice=-7",): {"priority": "7"},
    ("-H",): {"hold": True},
    ("--signal=B:10@30", "-t", "5"): {"signal": "USR1@30", "time": "300s"},
    ("--signal=TERM", "-t", "5"): {"signal": "TERM@60", "time": "300s"},
    ("-b", "now+2hours"): {"begin": "+2h"},
    ("-b", "now+1week"): {"begin": "+7d"},
    ("-b", "now+90"): {"begin": "+90s"},
    ("-b", "now"): {},
    ("--begin=2030-01-31T18:00",): {"begin": "2030-01-31T18:00"},
    ("--requeue",): {"requeue": True},
    ("--no-requeue", "-N1", "-n", "1", "--ntasks-per-node=1"): {},
    ("--comment=two words",): {"comment": "two words"},
    ("--exclusive",): {"collocation": "exclusive"},
    ("--gpu-memory=12G", "-G1"): {"gpus": "1", "gpu-memory": "12G"},
    ("-p", "gpu", "--qos=high", "-A", "lab", "-v"): {},
}  # fmt: skip


def test_what_has_a_meaning_here() -> None:
    for words, meaning in TABLE.items():
        found = sbatch(*words).raw
        assert found == {"gpus": "0", **OUTPUT, **meaning}, words
        typed_whole(found)


REFUSED = {
    ("-N", "2"): "--nodes: '2': a job is one task on one server",
    ("-n", "4"): "--ntasks: '4': a job is one task on one server",
    ("--gpus=two",): "--gpus: 'two' is not",
    ("--gres=lustre:1",): "is not a GPU",
    ("--gres=gpu:a100:1,gpu:v100:1",): "several kinds of GPUs",
    ("--gres=gpu:2", "--gpus=3"): "differs from the 2 GPUs",
    ("-t", "soon"): "is not a time",
    ("--mem=lots",): "is not an amount",
    ("-d", "singleton"): "is none of afterok, afterany, afternotok",
    ("-d", "afterok:1?afterok:2"): "radrm waits for all",
    ("-d", "after:1"): "is none of",
    ("-C", "a100"): "--gpu-type=TYPE",
    ("-i", "in.txt"): "redirect it in the script",
    ("--input=in.txt",): "redirect it in the script",
    ("--gpuz=1",): "--gpuz: no option of sbatch",
    ("-a", "9-1"): "--array: '9-1' is not an array",
    ("-t",): "--time needs a value",
    ("-o", "%q"): "is not a pattern",
    ("-b", "now+2fortnights"): "is no unit",
    ("-b", "teatime"): "--begin: 'teatime'",
}


def test_what_would_make_another_job() -> None:
    for words, why in REFUSED.items():
        with pytest.raises(UsageError) as error:
            sbatch(*words)
        said = str(error.value)
        assert why in said and said.startswith("command line: ") and "\n" not in said, words


def test_what_is_left_out_is_named() -> None:
    (note,) = sbatch("-p", "gpu", "--account=lab").notes
    assert note.endswith("is left out: --partition, --account")


SCRIPT = """#!/bin/bash
# SBATCH -J comment
#SBATCH -J first  # a comment
#SBATCH --mem=1G
#
#SBATCH --mem=2G --comment='two words'
echo
#SBATCH -J late
"""


def test_the_lines_of_a_script() -> None:
    found = directives(SCRIPT, "job.sbatch")
    assert [(each.name, each.value, each.where) for each in found] == [
        ("job-name", "first", "job.sbatch line 3"),
        ("mem", "1G", "job.sbatch line 4"),
        ("mem", "2G", "job.sbatch line 6"),
        ("comment", "two words", "job.sbatch line 6"),
    ]
    assert translate(found, "/", "box").raw["memory"] == "2048M"


def test_the_command_line_overrides_the_script() -> None:
    options, rest = read(["--mem", "4G", "job.sbatch", "-J", "argument"], "command line")
    assert rest == ["job.sbatch", "-J", "argument"]
    assert translate([*directives(SCRIPT, "s"), *options], "/", "box").raw["memory"] == "4096M"


@pytest.mark.parametrize("line", ["#SBATCH -J 'open", "#SBATCH job", "#SBATCH " + "x" * 9000])
def test_a_line_that_cannot_be_read_is_named(line: str) -> None:
    with pytest.raises(UsageError, match=r"^s line 1: .*"):
        directives(line, "s")


def test_variables() -> None:
    found = sbatch("--gpus=2", "-c", "3", "-a", "1,5,9", "-n", "1").variables
    assert found["SLURM_GPUS"] == "2" and found["SLURM_CPUS_PER_TASK"] == "3"
    counts = [found[f"SLURM_ARRAY_TASK_{each}"] for each in ("COUNT", "MIN", "MAX")]
    assert counts == ["3", "1", "9"] and found["SLURM_NTASKS"] == "1"
    assert "SLURM_NTASKS" not in sbatch().variables  # PyTorch Lightning would take it for a task


def test_the_environment_that_a_job_keeps() -> None:
    assert sbatch("--export=ALL").kept is None
    assert sbatch().kept is None
    kept = sbatch("--export=DATA,X=1").kept
    assert kept is not None and "DATA" in kept and "HOME" in kept and "X" not in kept


def test_each_option_is_of_one_kind() -> None:
    kinds = [set(_MEANINGS), _IGNORED, set(_REFUSED)]
    for kind in kinds:
        assert not any(kind & other for other in kinds if other is not kind)
    known = set().union(*kinds) | {"help", "version", "wrap"}
    assert set(_LONG.values()) <= known
    assert known | {"reboot"} >= _FLAGS | _MAYBE


@given(st.integers(0, 9999), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_times(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    assert parse_time(f"{days}-{hours}:{minutes:02}:{seconds:02}") == (total or None)


@given(st.integers(0, 10**11), st.sampled_from("KMGT"))
def test_amounts(count: int, unit: str) -> None:
    mib = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}[unit]
    assert parse_memory(f"{count}{unit}") == count * mib
