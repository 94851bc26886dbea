"""The tracer runs in the user's Python; one that goes wrong is one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from radrm.config import EstimationConfig
from radrm.host.estimation.tracing import trace, tracer_arguments
from radrm.host.processes.tree import attempt_processes
from radrm.jobfile.parsing import typed
from radrm.structs import replace
from tests.host.estimation.asking import SAY, request, said


def test_the_tracer_runs_in_the_users_python_with_their_environment_and_no_gpu(
    python3: Path,
) -> None:
    text = SAY + (
        "seen = {k: os.environ.get(k) for k in ('THEIRS', 'CUDA_VISIBLE_DEVICES')}\n"
        "print('chatter'); sys.stderr.write('more')\n"
        "say({'said': [os.getcwd(), sys.argv[1][-7:], sys.argv[3:], seen]})"
    )
    cwd, program, arguments, seen = said(request(python3, text))
    assert (cwd, program) == (str(python3.parent), "/tracer")
    assert arguments == ["--batch-size=8", "--input-shape=3x4", "--", "nets:make"]
    assert seen == {"THEIRS": "1", "CUDA_VISIBLE_DEVICES": ""}


def test_the_command_reaches_the_tracer_and_nobody_else(python3: Path) -> None:
    text = SAY + (
        "arguments = open('/proc/self/cmdline').read()\n"
        "say({'said': [os.environ['RADRM_TRACED_COMMAND'], arguments]})"
    )
    secret = "TOKEN=abc torchrun train.py é" + "x" * 200_000
    wanted = replace(request(python3, text), command=secret)
    command, arguments = said(wanted)
    assert secret.startswith(command[:1000]) and len(command.encode()) == 1 << 16
    assert "TOKEN" not in arguments and "--gpus" not in arguments
    two = typed({"model-factory": "nets:make", "gpus": "2"})
    assert tracer_arguments(two) == ("--gpus=2", "--parallel=auto", "--", "nets:make")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("os.abort()", "signal 6"),
        ("time.sleep(600)", "longer than 3 s"),
        (SAY + "say({'said': 'x' * (70 << 20)})", "longer than 64 MiB"),
        ("bytearray(2**30)", "exit code 1"),
    ],
)
def test_a_tracer_that_goes_wrong_is_one_line(python3: Path, text: str, why: str) -> None:
    hangs = "sleep" in text
    limits = EstimationConfig(trace_limit_s=3.0 if hangs else 60.0, trace_memory_mib=512)
    line = json.loads(trace(request(python3, text), limits))["error"]
    assert why in line and "\n" not in line


def test_nothing_that_a_tracer_started_outlives_it(python3: Path) -> None:
    text = SAY + (
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    time.sleep(600)\n"
        "say({'said': os.environ['RADRM_TOKEN']})"
    )
    assert not attempt_processes(said(request(python3, text)), None)


def test_a_missing_python_and_a_missing_folder_are_told(python3: Path, tmp_path: Path) -> None:
    nowhere = replace(request(python3, ""), environment={"PATH": str(tmp_path)})
    assert "no such program" in json.loads(trace(nowhere, EstimationConfig()))["error"]
    gone = replace(request(python3, ""), cwd=str(tmp_path / "gone"))
    assert "cannot enter the folder" in json.loads(trace(gone, EstimationConfig()))["error"]


def open_to_all(tmp_path: Path) -> None:
    for folder in (*tmp_path.iterdir(), tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o055 != 0o055:
            folder.chmod(folder.stat().st_mode | 0o055)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_root_daemon_traces_as_the_user(python3: Path, tmp_path: Path) -> None:
    open_to_all(tmp_path)
    asked = replace(request(python3, "", Path("/")), user="nobody", uid=65534, gid=65534)
    # No Python of ours: nobody may be allowed to read it.
    write = "printf '{\"said\": [%s, %s]}' $(id -u) $(id -g) > $out.part; mv $out.part $out\n"
    python3.write_text("#!/bin/bash\nout=${2#--output=}\n" + write)
    asked = replace(asked, environment={"PATH": f"{python3.parent}:/usr/bin:/bin"})
    assert said(asked) == [65534, 65534]
