"""Ranges and roles: what becomes of them in a job's record, and which are refused."""

from __future__ import annotations

import json

import pytest

from radrm.core.records import JobSpec, Needs, Role
from radrm.core.words import Resizing
from radrm.errors import RadrmError
from radrm.jobfile.radfile import JobFile, read_job_file, wrap_command
from radrm.jobfile.sizes import smaller_ends

RADRUN = "radrun train.py\n"
TORCHRUN = "torchrun --standalone --nproc-per-node=$RADRM_GPUS train.py\n"


def read(options: str, script: str = RADRUN, **overrides: str) -> JobFile:
    return read_job_file(f"#!/bin/bash\n#RAD {options}\n{script}".encode(), "job.rad", overrides)


def spec(options: str, script: str = RADRUN) -> JobSpec:
    return read(options, script).spec("ada", 1000)


# --------------------------------------------------------------------------- accepted


def test_a_range_is_one_worker_per_gpu() -> None:
    found = spec("--gpus=1-4 --cpus=4-16 --memory=8G-64G --gpu-memory=6G --checkpoint=signal")
    needs = Needs(gpus=1, gpu_memory_mib=6144, cpus=4.0, cpus_max=16.0)
    assert found.roles == (Role(count_min=1, count_max=4, needs=needs),)
    assert (found.gpus, found.gpus_max, found.elastic) == (1, 4, True)
    assert found.memory_range_mib == (8192, 65_536)
    assert found.memory_mib == 8192
    assert found.resizing is Resizing.LIVE


def test_one_number_is_one_task_as_ever() -> None:
    found = spec("--gpus=4 --cpus=8 --memory=8G")
    assert found.roles == (Role(needs=Needs(gpus=4, cpus=8.0, memory_mib=8192)),)
    assert found.memory_range_mib is None
    assert (found.resizing, found.elastic) == (Resizing.NONE, False)


@pytest.mark.parametrize(
    ("options", "role", "memory"),
    [
        ("--gpus=2-2", Role(count_min=2, count_max=2, needs=Needs(gpus=1)), None),
        ("--gpus=1-4 --cpus=4", Role(count_max=4, needs=Needs(gpus=1, cpus=4.0)), None),
        (
            "--gpus=2 --cpus=4-8",
            Role(count_min=2, count_max=2, needs=Needs(gpus=1, cpus=4.0, cpus_max=8.0)),
            None,
        ),
        ("--cpus=4-8", Role(needs=Needs(gpus=1, cpus=4.0, cpus_max=8.0)), None),
        ("--gpus=0 --cpus=1-2", Role(needs=Needs(gpus=0, cpus=1.0, cpus_max=2.0)), None),
        ("--gpus=1-2 --memory=4G", Role(count_max=2, needs=Needs(gpus=1)), (4096, 4096)),
        ("--gpus=0 --memory=4G-8G", Role(needs=Needs(gpus=0)), (4096, 8192)),
    ],
)
def test_what_is_per_worker_and_what_of_the_job(
    options: str, role: Role, memory: tuple[int, int] | None
) -> None:
    found = spec(options)
    assert found.roles == (role,)
    assert found.memory_range_mib == memory


def test_roles_have_counts_and_needs_of_their_own() -> None:
    found = spec("--gpus=0 --cpus=2-4 --role=ps:1-4,cpus=4,memory=2G --role=worker:1-8")
    ps = Role("ps", 1, 4, needs=Needs(gpus=0, cpus=4.0, memory_mib=2048))
    worker = Role("worker", 1, 8, needs=Needs(gpus=0, cpus=2.0, cpus_max=4.0))
    assert found.roles == (ps, worker)
    assert found.resizing is Resizing.LIVE


def test_a_role_can_have_gpus() -> None:
    found = spec("--gpu-memory=4G --smact=0.5 --role=learner:1-2,gpus=1 --role=actor:4,cpus=1")
    assert found.roles == (
        Role("learner", 1, 2, needs=Needs(gpus=1, gpu_memory_mib=4096, smact=0.5)),
        Role("actor", 4, 4, needs=Needs(gpus=0, cpus=1.0)),
    )
    assert (found.gpus, found.gpus_max) == (1, 2)


@pytest.mark.parametrize("kind", ["signal", "exit"])
def test_other_launchers_save_and_start_anew(kind: str) -> None:
    found = spec(f"--gpus=1-4 --checkpoint={kind}", TORCHRUN)
    assert found.resizing is Resizing.RESTART
    assert found.roles == (Role(count_max=4, needs=Needs(gpus=1)),)


def test_a_command_can_be_radrun() -> None:
    found = wrap_command(["radrun", "train.py"], {"gpus": "1-2"}).spec("ada", 1000)
    assert found.resizing is Resizing.LIVE


def test_an_edit_replaces_a_range_and_one_role() -> None:
    wider = read("--gpus=1-2").edited({"gpus": "2-4"}).spec("ada", 1000)
    assert (wider.roles[0].count_min, wider.roles[0].count_max) == (2, 4)
    fixed = read("--gpus=1-2").edited({"gpus": "2"}).spec("ada", 1000)
    assert (fixed.roles[0], fixed.resizing) == (Role(needs=Needs(gpus=2)), Resizing.NONE)
    changed = read("--gpus=0 --role=ps:1 --role=worker:2").edited({"role": ["ps:1-4"]})
    assert [(r.name, r.count_max) for r in changed.spec("ada", 1000).roles] == [
        ("ps", 4),
        ("worker", 2),
    ]
    with pytest.raises(RadrmError, match=r"edited options: --gpus=1-2 is a range"):
        read("--gpus=1", TORCHRUN).edited({"gpus": "1-2"})


def test_a_record_of_the_options_can_be_stored() -> None:
    raw = read("--gpus=0 --role=ps:1-4 --role=worker:1-8").raw
    assert json.loads(json.dumps(raw)) == raw


# --------------------------------------------------------------------------- refused

RANGE = "is a range, and a running job gets another size only by radrun or by saved work; "


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--gpus=4-1", "line 2: --gpus: '4-1' has the larger value first; write 1-4"),
        ("--cpus=8-2", "line 2: --cpus: '8-2' has the larger value first; write 2-8"),
        ("--memory=4G-1G", "line 2: --memory: '4G-1G' has the larger value first; write 1G-4G"),
        ("--gpus=0-4", "line 2: --gpus: '0' is not a whole number from 1 to 256"),
        ("--role=ps", "line 2: --role: role ps has no count; write NAME:COUNT, as in ps:1-4"),
        ("--role=:2", "line 2: --role: ':2' is not a role; write NAME:COUNT"),
        ("--role=ps:4-1", "line 2: --role: count of role ps: '4-1' has the larger value first"),
        ("--role=ps:1,gpu=1", "line 2: --role: 'gpu=1' is not a setting of a role"),
        ("--role=ps:1 --role=ps:2", "line 2: role ps is given twice; keep one of them"),
        ("--gpus=2 --role=ps:1", "line 2: --gpus=2 does not go with --role; write --gpus=0"),
        ("--gpus=1-2 --role=ps:1", "line 2: --gpus=1-2 does not go with --role"),
        ("--memory=8G --role=ps:1,memory=2G", "line 2: --memory=8G is of the whole job; leave"),
        ("--role=a:200 --role=b:100", "line 2: --role makes 300 tasks in all, and 256 is the"),
        ("--gpus=1-2 --mig-profile=1g.5gb", "line 2: --gpus=1-2 is a range, which does not go"),
        ("--gpus=1-2 --collocation=mig", "line 2: --gpus=1-2 is a range, which does not go"),
        ("--elastic=1-4", "line 2: unknown option '--elastic=1-4'; here it is --gpus=MIN-MAX"),
    ],
)
def test_bad_sizes_name_the_line_the_word_and_the_next_step(options: str, message: str) -> None:
    with pytest.raises(RadrmError) as caught:
        read(options)
    assert str(caught.value).startswith(f"job.rad {message}")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--gpus=1-4", f"--gpus=1-4 {RANGE}start the program with radrun, or add --checkpoint="),
        ("--cpus=1-4 --checkpoint=none", f"--cpus=1-4 {RANGE}"),
        ("--memory=1G-4G", f"--memory=1G-4G {RANGE}"),
        ("--role=ps:1 --checkpoint=signal", "--role needs radrun, which starts its tasks; start"),
    ],
)
def test_a_range_needs_a_way_to_another_size(options: str, message: str) -> None:
    with pytest.raises(RadrmError) as caught:
        read(options, TORCHRUN)
    assert str(caught.value).startswith(f"job.rad line 2: {message}")


def test_what_to_lower_is_named_with_its_line() -> None:
    job = read("--gpus=5-8 --cpus 64-128", cpus="64-128", memory="9T-9T")
    found = smaller_ends(job.raw, job.script)
    assert found == (
        "lower the smaller end of --gpus=5-8 (line 2) or --cpus=64-128 (line 2) or --memory=9T-9T"
    )
    roles = read("--gpus=0 --role=ps:4,cpus=64 --role=worker:1-3")
    assert smaller_ends(roles.raw, roles.script) == (
        "lower the smaller end of --role=ps:4,cpus=64 (line 2) or --role=worker:1-3 (line 2)"
    )


def test_an_option_of_the_command_line_is_named_as_such() -> None:
    with pytest.raises(RadrmError, match=r"^command line: --gpus=1-4 is a range"):
        read("--name=x", TORCHRUN, gpus="1-4")
    with pytest.raises(RadrmError, match=r"^command line: --gpus=1-4 is a range"):
        wrap_command(["python", "train.py"], {"gpus": "1-4"})
    with pytest.raises(RadrmError, match=r"^command line: --role names role a twice"):
        wrap_command(["radrun", "train.py"], {"role": ["a:1", "a:2"]})
