"""A note at the submission of a job whose containers are started without radrm's arguments."""

from __future__ import annotations

import pytest

from radrm.jobfile.confirmation import notes_on
from radrm.jobfile.radfile import read_job_file, wrap_command


def noted(line: str, options: str = "") -> str:
    script = f"#!/bin/sh\n#RAD --gpus=1 {options}\n{line}\n"
    return " ".join(notes_on(read_job_file(script.encode(), "job.sh", {})))


@pytest.mark.parametrize(
    "line",
    [
        "docker run --gpus all image train",
        "exec podman container run image",
        "cd x && docker run i",
    ],
)
def test_a_container_without_the_arguments(line: str) -> None:
    engine = "podman" if "podman" in line else "docker"
    assert noted(line).startswith(f"`{engine} run` without $RADRM_CONTAINER_ARGS")


@pytest.mark.parametrize(
    "line",
    [
        "docker run $RADRM_CONTAINER_ARGS image train",
        "true  # docker run image",
        "docker pull image",
        "python run.py",
        "python train.py --note=docker-run",
    ],
)
def test_no_container_or_one_with_them(line: str) -> None:
    assert noted(line) == ""


def test_a_job_without_a_gpu_needs_none() -> None:
    script = b"#!/bin/sh\n#RAD --gpus=0\ndocker run image\n"
    assert notes_on(read_job_file(script, "job.sh", {})) == []


def test_a_bare_command() -> None:
    assert notes_on(wrap_command(["docker", "run", "image"], {}))
    assert not notes_on(wrap_command(["python", "train.py"], {}))
