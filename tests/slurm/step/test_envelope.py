"""The job of a step: what follows from the Slurm job when its script does not say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.errors import UsageError
from radrm.host.processes.identity import Identity
from radrm.jobfile.radfile import read_job_file, wrap_command
from radrm.slurm.outer import SlurmJob
from radrm.slurm.scripts import GPUMEM, wrap
from radrm.slurm.step.envelope import make_envelope

FIRST = "#!/usr/bin/env -S radrm slurm-step"


def declared(folder: Path, script: str, gpumem_mib: int | None, *arguments: str) -> int | None:
    """The GPU memory, in MiB on each GPU, that a daemon reads in the envelope of this script."""
    file = folder / "job"
    file.write_text(script)
    job = SlurmJob(*("47", "c", 0, "train", "shared", "g1", 1), process=Identity(2, 3, "b"))
    envelope = make_envelope(job, str(file), arguments, {"gpumem_mib": gpumem_mib})
    if envelope.script is None:
        return wrap_command(envelope.command or [], envelope.options).options.gpu_memory_mib
    data = envelope.script.encode()
    return read_job_file(data, "job", envelope.options).options.gpu_memory_mib


@pytest.mark.parametrize(
    ("script", "gpumem_mib", "found"),
    [
        ("#!/bin/sh\necho\n", 8192, 8192),
        ("#!/bin/sh\n#RAD --gpus=3\necho\n", 8192, 2730),
        (f"{FIRST}\n#!/bin/sh\necho\n", 8192, 8192),
        (f"{FIRST}\n#RAD-OPTION --gpus=2\n#!/bin/sh\necho\n", 8192, 4096),
        ("#!/bin/sh\n#RAD --gpu-memory=3G\necho\n", 8192, 3072),
        ("#!/bin/sh\n#RAD --gpu-memory=auto\necho\n", 8192, None),
        ("#!/bin/sh\n#RAD --gpus=0\necho\n", 8192, None),
        ("#!/bin/sh\n#RAD --gpus=3\necho\n", 2, None),
        ("#!/bin/sh\necho\n", None, None),
        (wrap("#!/bin/sh\necho\n"), 8192, None),
        (wrap("#!/bin/sh\necho\n", ["--gpus=2", "--gpu-memory=1G"]), 8192, 1024),
        (f"{FIRST}\n{GPUMEM}#RAD-OPTION --time=60\necho\n", 8192, None),
        (f"#!/bin/sh\n{GPUMEM}echo\n", 8192, 8192),
    ],
)
def test_what_a_user_asks_of_slurm_is_declared_where_the_script_says_nothing(
    tmp_path: Path, script: str, gpumem_mib: int | None, found: int | None
) -> None:
    assert declared(tmp_path, script, gpumem_mib) == found
    assert declared(tmp_path, script, gpumem_mib, "--lr", "1") == found


@pytest.mark.parametrize(("limit_s", "time_s"), [(7200.0, 7200.0), (None, 60.0)])
def test_the_limit_is_slurms_where_there_is_one(
    tmp_path: Path, limit_s: float | None, time_s: float
) -> None:
    file = tmp_path / "job"
    file.write_text("#!/bin/sh\n#RAD --time=60s\necho\n")
    job = SlurmJob(*("47", "c", 0, "train", "shared", "g1", 1), process=Identity(2, 3, "b"))
    made = make_envelope(job, str(file), (), {"limit_s": limit_s})
    found = read_job_file(made.script.encode(), "job", made.options).options
    assert found.time_s == time_s


def test_a_sweep_is_the_jobs_own_fault(tmp_path: Path) -> None:
    file = tmp_path / "job"
    file.write_text("#!/bin/sh\n#RAD --param=lr=1,2\necho\n")
    job = SlurmJob(*("47", "c", 0, "train", "shared", "g1", 1), process=Identity(2, 3, "b"))
    with pytest.raises(UsageError):
        make_envelope(job, str(file), (), {})
