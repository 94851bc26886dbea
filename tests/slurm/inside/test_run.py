"""`srun` inside a job, as a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[3] / "radrm/slurm/programs"
JOB = {
    "RADRM_JOB_ID": "12", "RADRM_ATTEMPT": "1", "RADRM_CPUS": "8", "CUDA_VISIBLE_DEVICES": "a,b",
    "SLURM_JOB_GPUS": "4,6", "SLURM_JOB_NAME": "train", "RADRM_PYTHON": sys.executable,
    "SLURMD_NODENAME": "box",
}  # fmt: skip
SHOW = "echo $SLURM_PROCID/$SLURM_NTASKS $CUDA_VISIBLE_DEVICES"


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    environ = {**os.environ, **JOB, "RADRM_CHECKPOINT_DIR": str(folder)}
    pipe = subprocess.PIPE
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [PROGRAMS / "srun", *words], cwd=folder, env=environ, text=True,
        stdin=pipe, stdout=pipe, stderr=pipe,
    )  # fmt: skip


def srun(folder: Path, *words: str, given: str = "") -> tuple[int, list[str], str]:
    with start(folder, *words) as process:
        out, err = process.communicate(given, timeout=60)
    return process.returncode, sorted(out.splitlines()), err


def test_one_task_is_the_command_itself(tmp_path: Path) -> None:
    (tmp_path / "typing.py").write_text("raise SystemExit(9)")  # of the working directory
    assert srun(tmp_path, "sh", "-c", f"{SHOW}; cat; exit 7", given="in\n")[:2] == (
        7,
        ["0/1 a,b", "in"],
    )
    code, _, said = srun(tmp_path, "nosuch")
    assert code == 2 and "nosuch" in said
    assert srun(tmp_path, "-N", "2", "true")[0] == 1
    assert srun(tmp_path, "sh", "-c", "yes | head -n 1")[1:] == (["y"], "")  # of SIGPIPE
    shown = srun(tmp_path, "--gres=gpu:1", "sh", "-c", "echo $SLURM_STEP_GPUS $SLURM_STEP_ID")[1]
    assert shown == ["4 3"]


def test_a_task_sees_the_gpus_of_its_job_and_hands_nothing_of_the_step_on(tmp_path: Path) -> None:
    environ = {**os.environ, **JOB, "NVIDIA_VISIBLE_DEVICES": "a,b", "CUDA_VISIBLE_DEVICES": "1",
               "RADRM_CHECKPOINT_DIR": str(tmp_path)}  # fmt: skip
    words = ["--ntasks-per-node=2", "--export=ALL,MINE=1", sys.executable, "-c", HANDED_ON]
    done = subprocess.run(
        [PROGRAMS / "srun", *words], env=environ, text=True, capture_output=True, timeout=60
    )
    assert done.stdout == "b 2 None 1\n" * 2


HANDED_ON = """
import os
from radrm.jobfile.inherited import drop_outer
seen = [os.environ[name] for name in ("CUDA_VISIBLE_DEVICES", "SLURM_NTASKS_PER_NODE")]
drop_outer(os.environ)
line = f"{' '.join(seen)} {os.environ.get('SLURM_NTASKS')} {os.environ.get('MINE')}\\n"
os.write(1, line.encode())  # whole beside the other task's
"""


HALVES = """
import os, time
me, other = os.environ["SLURM_PROCID"], str(1 - int(os.environ["SLURM_PROCID"]))
os.write(1, b"first ")
open(f"half-{me}", "w").close()
while not os.path.exists(f"half-{other}"):
    time.sleep(0.01)
os.write(1, b"second\\n")
"""


def test_tasks_that_share_a_stream_write_whole_lines(tmp_path: Path) -> None:
    halves = [sys.executable, "-c", HALVES]
    assert srun(tmp_path / "a", "-n2", *halves)[1] == ["first second"] * 2
    with start(tmp_path / "b", "-n2", "-u", *halves) as process:
        assert process.communicate(timeout=60)[0].startswith("first first ")
    assert srun(tmp_path / "c", "-n2", "-o", "%t.log", *halves)[1] == []
    assert (tmp_path / "c" / "1.log").read_text() == "first second\n"


def test_several_tasks(tmp_path: Path) -> None:
    code, lines, said = srun(
        tmp_path, "-l", "-n2", "--gpus-per-task=1", "sh", "-c", f"{SHOW}; cat; exit $SLURM_PROCID",
        given="x\n",
    )  # fmt: skip
    assert (code, lines) == (1, ["0: 0/2 a", "0: x", "1: 1/2 b", "1: x"])
    assert "task 1" in said
    (tmp_path / "conf").write_text("0 echo zero %t\n1-2 echo %o of %t\n")
    code, lines, _ = srun(tmp_path, "-n3", "-o", "%j-%2t.log", "--multi-prog", "conf")
    assert (code, lines) == (0, [])
    logs = {each.name: each.read_text() for each in tmp_path.glob("*.log")}
    assert logs == {"12-00.log": "zero 0\n", "12-01.log": "0 of 1\n", "12-02.log": "1 of 2\n"}


@pytest.mark.parametrize(
    ("words", "script", "expected"),
    [
        (["-K"], "[ $SLURM_PROCID = 1 ] && exit 3; sleep 60", 128 + signal.SIGTERM),
        (["-W1"], "[ $SLURM_PROCID = 1 ] && exit 3; sleep 60", 128 + signal.SIGTERM),
        ([], "kill -9 $$", 128 + signal.SIGKILL),
    ],
)
def test_the_worst_end_counts(tmp_path: Path, words: list[str], script: str, expected: int) -> None:
    assert srun(tmp_path, "-n2", *words, "sh", "-c", script)[0] == expected


def test_signals_are_passed_on(tmp_path: Path) -> None:
    script = "trap 'echo got; exit 4' USR1; echo ready; while :; do sleep 0.05; done"
    with start(tmp_path, "-n2", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
        process.send_signal(signal.SIGUSR1)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (4, "got\ngot\n")


def test_scancel_signals_the_steps_of_its_own_job(tmp_path: Path) -> None:
    script = "trap 'exit 4' USR1; echo ready; while :; do sleep 0.05; done"
    environ = {**os.environ, **JOB, "RADRM_CHECKPOINT_DIR": str(tmp_path)}
    with start(tmp_path, "-n1", "sh", "-c", script) as process:
        assert process.stdout.readline() == "ready\n"
        for step in ("12.7", "12.0"):  # there is no step 7
            words = [PROGRAMS / "scancel", "-s", "USR1", step]
            subprocess.run(words, env=environ, check=True, timeout=60)
        process.communicate(timeout=60)
    assert process.returncode == 4


def test_the_programs_are_alike() -> None:
    from radrm.slurm.commands.names import NAMES

    assert {each.name for each in PROGRAMS.iterdir()} == set(NAMES)
    assert len({each.read_bytes() for each in PROGRAMS.iterdir()}) == 1
    assert all(os.access(each, os.X_OK) for each in PROGRAMS.iterdir())
