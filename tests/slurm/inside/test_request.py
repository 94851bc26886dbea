"""What a command line of srun asks for inside a job."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.errors import RadrmError
from radrm.jobfile.inherited import SET, drop_outer, list_of
from radrm.jobfile.slurm.options import MAYBE, NONE
from radrm.slurm.inside import step
from radrm.slurm.inside.options import OPTIONS, read
from radrm.slurm.inside.request import Job, Request, bound, job_of, request
from radrm.slurm.inside.shares import Share

FOUR = Job("12", "box.org", ("a", "b", "c", "d"), ("0", "1", "2", "3"), 8)
NO_LIMIT = Job("12", "box", (), (), None)


def asked(words: str, job: Job = FOUR, **environ: str) -> Request:
    return request(words.split(), job, environ)


STEPS: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    ("python train.py -n 3", {}, {"command": ("python", "train.py", "-n", "3"), "tasks": 1}),
    ("-u python t.py", {}, {"command": ("python", "t.py")}),
    ("-l hostname", {}, {"label": True, "command": ("hostname",)}),
    ("-lu -n4 --label hostname", {}, {"label": True, "tasks": 4}),
    ("-u -o LOG x", {}, {"output": "LOG", "error": "LOG"}),
    ("--out=LOG -e ERR x", {}, {"output": "LOG", "error": "ERR"}),
    ("-N1 -n1 x", {"SLURM_NTASKS": "4"}, {"tasks": 1}),
    ("-N 1-1 x", {"SLURM_NTASKS": "4"}, {"tasks": 4}),
    ("--ntasks-per-node=2 x", {"SLURM_NTASKS": "4"}, {"tasks": 2}),
    ("--tasks-per-node=2 x", {}, {"tasks": 2}),
    ("x", {"SLURM_NTASKS_PER_NODE": "3"}, {"tasks": 3}),
    ("--ntasks-per-gpu=2 x", {}, {"tasks": 8, "binding": "single:2"}),
    ("--gpus=4 --gpus-per-task=2 x", {}, {"tasks": 2, "gpus": 4, "binding": "per_task:2"}),
    ("-n4 --gpus-per-task=1 x", {}, {"gpus": 4, "binding": "per_task:1"}),
    ("x", {"SLURM_NTASKS": "4", "SLURM_GPUS_PER_TASK": "1"}, {"gpus": 4, "binding": "per_task:1"}),
    ("--gpus-per-task=1 --gpu-bind=none x", {}, {"gpus": 1, "binding": "none"}),
    ("--gres=gpu:1 x", {}, {"gpus": 1, "binding": ""}),
    ("--gres=gpu:a100:2 x", {}, {"gpus": 2}),
    ("--gres gpu x", {}, {"gpus": 1}),
    ("--gres=none x", {}, {"gpus": 0}),
    ("-G 2 --overlap x", {}, {"gpus": 2, "overlap": True}),
    ("--gpus=h100:3 x", {}, {"gpus": 3}),
    ("--tres-per-task=cpu:2,gres/gpu:1 -n 2 x", {}, {"gpus": 2, "binding": "per_task:1"}),
    ("x", {}, {"gpus": None, "counted": False, "overlap": False}),
    ("--exclusive -n1 -c2 x", {}, {"counted": True, "cpus": 2}),
    ("--exact x", {}, {"counted": True}),
    ("x", {"SRUN_CPUS_PER_TASK": "2", "SLURM_CPUS_PER_TASK": "8"}, {"cpus": 2, "counted": False}),
    ("-n 2 x", {"SLURM_CPUS_PER_TASK": "4"}, {"cpus": 4}),
    ("-n 4 --cpu_bind=cores x", {"SLURM_CPUS_PER_TASK": "4"}, {"cpus": None}),
    ("-K x", {}, {"kill_on_bad_exit": True}),
    ("--kill-on-bad-exit=1 x", {}, {"kill_on_bad_exit": True}),
    ("--kill-on-bad-exit=0 x", {"SLURM_KILL_BAD_EXIT": "1"}, {"kill_on_bad_exit": False}),
    ("x", {"SLURM_KILL_BAD_EXIT": "1"}, {"kill_on_bad_exit": True}),
    ("-W 30 -t 1:30 x", {}, {"wait_s": 30, "lasts_s": 90}),
    ("--wait=0 x", {}, {"wait_s": None}),
    ("--cpu-bind=cores --mem-bind=local --distribution=block --hint=nomultithread x", {}, {}),
    ("--mpi=pmix -p gpu -A me --qos high --mem=4G --pty --export=ALL,A=1 x", {}, {"tasks": 1}),
    ("--jobid=12 --het-group=0 -w box -r 0 x", {}, {}),
    ("-O -n 32 x", {}, {"tasks": 32}),
    ("x", {"SLURM_OVERCOMMIT": "1", "SLURM_NTASKS": "32"}, {"tasks": 32}),
    ("-n 8 -D /tmp --open-mode=append -i none x", {}, {"chdir": "/tmp", "appends": True}),
    ("--multi-prog conf -n", {}, {"multi_prog": True, "command": ("conf", "-n")}),
    ("-- -n", {}, {"command": ("-n",)}),
    ("-c 2 -J name --kill x", {}, {"name": "name", "kill_on_bad_exit": True}),
]


@pytest.mark.parametrize(("words", "environ", "found"), STEPS)
def test_steps(words: str, environ: dict[str, str], found: dict[str, Any]) -> None:
    step = asked(words, **environ)
    assert {name: getattr(step, name) for name in found} == found


REFUSED = {
    "": "no command",
    "-N 2 x": "Only allocated 1 nodes asked for 2",
    "-n 9 x": "More processors requested than permitted",
    "-n 2 -c 5 x": "More processors requested than permitted",
    "--gres=gpu:5 x": "Invalid generic resource",
    "-n 5 --gpus-per-task=1 x": "Invalid generic resource",
    "--jobid=13 x": "a step runs in the job that starts it",
    "-w other x": "Requested node configuration is not available",
    "-x box x": "Requested node configuration is not available",
    "--het-group=1 x": "--het-group=0",
    "a : b": "heterogeneous",
    "--epilog=/bin/true x": "--epilog",
    "--container-image=a.sqsh x": "srun apptainer exec",
    "--bogus x": "--bogus",
    "--gpu x": "--gpu-bind",
    "-n": "--ntasks needs a value",
    "-n two x": "--ntasks",
    "--label=1 x": "takes no value",
    "--gpus=many:few:2x x": "--gpus",
    "-t soon x": "--time",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused_in_one_line(words: str) -> None:
    with pytest.raises(RadrmError) as found:
        asked(words)
    assert REFUSED[words] in str(found.value) and "\n" not in str(found.value)


def test_a_job_without_cpus_of_its_own_can_have_many_tasks() -> None:
    assert asked("-n 64 -c 8 x", NO_LIMIT).tasks == 64
    with pytest.raises(RadrmError, match="at most"):
        asked("-n 100000 x", NO_LIMIT)
    with pytest.raises(RadrmError, match="no GPU"):
        asked("--gpus=1 x", NO_LIMIT)


BINDINGS: dict[tuple[str, int], list[str]] = {
    ("", 1): ["a", "b", "c"],
    ("none", 2): ["a", "b", "c"],
    ("closest", 2): ["a", "b", "c"],
    ("per_task:1", 2): ["c"],
    ("per_task:2", 1): ["c"],
    ("single:1", 1): ["b"],
    ("single:2", 3): ["b"],
    ("single:1", 3): ["a"],
    ("map_gpu:2,0", 0): ["c"],
    ("map_gpu:2,0", 3): ["a"],
    ("map_gpu:0*2,1", 2): ["b"],
    ("mask_gpu:0x5,0x2", 0): ["a", "c"],
    ("mask_gpu:0x5,0x2", 1): ["b"],
}


@pytest.mark.parametrize(("binding", "task"), BINDINGS)
def test_bindings(binding: str, task: int) -> None:
    assert bound(binding, ["a", "b", "c"], task) == BINDINGS[binding, task]


@pytest.mark.parametrize("binding", ["map_gpu:9", "map_gpu:x", "what", "single:x", "mask_gpu:"])
def test_what_is_no_binding(binding: str) -> None:
    with pytest.raises(RadrmError, match="--gpu-bind"):
        bound(binding, ["a"], 0)


def test_the_job_is_known_by_what_radrm_has_set() -> None:
    assert job_of({"SLURM_JOB_ID": "7"}, "box") is None
    found = job_of(
        {
            "RADRM_JOB_ID": "7",
            "RADRM_ATTEMPT": "1",
            "RADRM_CPUS": "2.5",
            "CUDA_VISIBLE_DEVICES": "GPU-x,GPU-y",
            "SLURM_JOB_GPUS": "3,5",
        },
        "box",
    )
    assert found == Job("7", "box", ("GPU-x", "GPU-y"), ("3", "5"), 2)


OF_JOB = {"NVIDIA_VISIBLE_DEVICES": "GPU-x,GPU-y", "SLURM_JOB_GPUS": "3,5"}
OWN_GPUS: list[tuple[dict[str, str], tuple[str, ...]]] = [
    ({}, ("GPU-x", "GPU-y")),  # a script unset it
    ({"CUDA_VISIBLE_DEVICES": "0,1"}, ("GPU-x", "GPU-y")),
    ({"CUDA_VISIBLE_DEVICES": "1"}, ("GPU-y",)),
    ({"CUDA_VISIBLE_DEVICES": "5"}, ("GPU-y",)),
    ({"CUDA_VISIBLE_DEVICES": "GPU-y,GPU-x"}, ("GPU-y", "GPU-x")),
    ({"CUDA_VISIBLE_DEVICES": "7"}, ("GPU-x", "GPU-y")),  # none of the job's
    ({"CUDA_VISIBLE_DEVICES": "0,1", "NVIDIA_VISIBLE_DEVICES": "void"}, ("0", "1")),
    ({"CUDA_VISIBLE_DEVICES": "0,1", SET: list_of({"CUDA_VISIBLE_DEVICES": "0,1"})}, ("0", "1")),
]


@pytest.mark.parametrize(("environ", "gpus"), OWN_GPUS)
def test_a_step_has_gpus_of_its_job_whatever_the_script_has_set(
    environ: dict[str, str], gpus: tuple[str, ...]
) -> None:
    found = job_of({"RADRM_JOB_ID": "7", "RADRM_ATTEMPT": "1", **OF_JOB, **environ}, "box")
    assert found.gpus == gpus
    numbers = {"GPU-x": "3", "GPU-y": "5", "0": "3", "1": "5"}
    assert found.numbers == tuple(numbers[gpu] for gpu in gpus)


def test_every_option_is_spelled_once() -> None:
    """The short ones of srun(1), and which of them are flags."""
    short = {each.short: each.takes for each in OPTIONS.values() if each.short}
    assert set(short) == set("ABCDEFGHIJKLMNOQSTVWXZbcdehiklmnopqrstuvwx")
    assert {letter for letter, takes in short.items() if takes == NONE} == set("EHOQVXZhlsuv")
    assert {letter for letter, takes in short.items() if takes == MAYBE} == set("IKk")
    for name, each in OPTIONS.items():
        assert read([f"--{name}" + ("" if each.takes == NONE else "=1"), "x"])[1] == ["x"]


@pytest.mark.parametrize("words", ["-n2 --gpus-per-task=1 -c2 x", "--export=NONE,MINE=1 x", "x"])
def test_a_job_that_a_task_submits_inherits_nothing_of_its_step(words: str) -> None:
    set_there = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "CUDA_VISIBLE_DEVICES": "a,b,c,d"}
    outer = {"HOME": "/home/ann", "MINE": "1", **set_there, SET: list_of(set_there)}
    outer_share, inner_share = Share(3, FOUR.gpus, FOUR.numbers), Share(4, (), ())
    task = step.environment(asked(words), FOUR, outer_share, 0, outer)
    assert task["SLURM_STEP_ID"] == "3"
    # Also of a step in a step, which sets less.
    for environ in (task, step.environment(asked("y"), FOUR, inner_share, 0, task)):
        its = dict(environ)
        drop_outer(its)
        assert its == {"HOME": "/home/ann", "MINE": "1"}
