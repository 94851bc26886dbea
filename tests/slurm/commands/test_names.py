"""What `sbatch`, `squeue`, `scancel` and `srun` mean to radrm."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from radrm.errors import UsageError
from radrm.jobfile.slurm import read, translate
from radrm.slurm.commands.names import (
    NAMES,
    SQUEUE_FORMAT,
    VARIABLES,
    elements,
    request_of,
    salloc,
    scancel,
    signal_in,
    squeue,
    srun,
)
from tests.cli.runner import invoke
from tests.daemon.harness import DaemonHome

SHOWN = f"--format={SQUEUE_FORMAT}"
UNFINISHED = ("--state", "pending,recovering,launching,running,stopping")
QUEUES = {
    (): ["status", SHOWN],
    ("--me",): ["status", "--user", "ada", SHOWN],
    ("-u", "bob", "-h"): ["status", "--user", "bob", SHOWN, "--no-header"],
    ("-hubob",): ["status", "--user", "bob", SHOWN, "--no-header"],
    # As squeue does, jobs that have ended are shown only when their states are asked for.
    ("-j12,13_[1-2]",): ["status", *UNFINISHED, SHOWN, "--", "12", "13_1", "13_2"],
    ("-j", "12", "-t", "all"): ["status", "--all", SHOWN, "--", "12"],
    ("-O", "jobid:6,name:.10,state"): ["status", "--format=%6A%.10j%20T"],
    ("-t", "PD,R"): ["status", "--all", "--state", "pending,running", SHOWN],
    ("--states=all",): ["status", "--all", SHOWN],
    ("-p", "gpu", "-S", "i", "-o", "%i"): ["status", "--format=%i"],
    # A host, not GPUs; and what no job has here.
    ("-o", "%.3i|%8N|%Z|%.5q|%%N"): ["status", "--format=%.3i|%8B|N/A|  N/A|%%N"],
    ("--users=bob", "--nohead", "-o", '{"%i"}'): [
        "status",
        "--user",
        "bob",
        '--format={{"%i"}}',
        "--no-header",
    ],
    ("-O", "nodelist:6,account:4"): ["status", "--format=%6BN/A "],
}
CANCELS = {
    ("12", "13"): ["cancel", "--", "12", "13"],
    ("12_[1,3-4]",): ["cancel", "--", "12_1", "12_3", "12_4"],
    ("--me", "-t", "PENDING"): ["cancel", "--user", "ada", "--state", "pending"],
    ("-n", "sweep"): ["cancel", "--", "sweep"],
    ("-u", "bob"): ["cancel", "--user", "bob"],
}


@pytest.mark.parametrize("words", QUEUES, ids=" ".join)
def test_squeue(words: tuple[str, ...]) -> None:
    assert squeue(words, "ada") == QUEUES[words]


@pytest.mark.parametrize("words", CANCELS, ids=" ".join)
def test_scancel(words: tuple[str, ...]) -> None:
    assert scancel(words, "ada") == CANCELS[words]


WRONG: list[tuple[Callable[[list[str], str], object], list[str], str]] = [
    (scancel, ["-p", "gpu"], "--partition is not known"),
    (scancel, ["-s", "USR1", "3"], "radrm checkpoint"),
    (scancel, ["-t", "LOST"], "the states here are"),
    (scancel, ["-u"], "needs a value"),
    (scancel, ["1_[9-x]"], "is not an array's elements"),
    (scancel, ["1_[0-99999999]"], "names too many"),
    (squeue, ["12"], "is not an option"),
    (squeue, ["-i", "5"], "--iterate is not known"),
    (squeue, ["--json"], "is not known here"),
    (squeue, ["-u", "ada,bob"], "one at a time"),
]


@pytest.mark.parametrize(("command", "words", "said"), WRONG)
def test_what_is_refused(
    command: Callable[[list[str], str], object], words: list[str], said: str
) -> None:
    with pytest.raises(UsageError, match=said.replace("[", r"\[")):
        command(words, "ada")


RUNS = {
    "--gpus=1 --pty -t 60 bash -l": "--gpus=1 --time=3600s --pty -- bash -l",
    "-u python t.py": "--gpus=0 -- python t.py",
    "-l /bin/hostname": "--gpus=0 --name=hostname -- srun --label -- /bin/hostname",
    "-n 2 --gres=gpu:2 --gpu-memory=4G -K python t.py": (
        "--gpus=2 --gpu-memory=4G --cpus=2 --name=python -- srun --kill-on-bad-exit -- python t.py"
    ),
}


@pytest.mark.parametrize("words", RUNS)
def test_srun_outside_a_job(words: str) -> None:
    line, variables = srun(words.split(), "/", "box")
    assert line == ["run", *RUNS[words].split()]
    assert variables["RADRM_SLURM"] == "1"


def test_what_srun_cannot_do_outside_a_job() -> None:
    for words, said in ((["--pty"], "no command"), (["--jobid=3", "x"], "--jobid")):
        with pytest.raises(UsageError, match=said):
            srun(words, "/", "box")


def test_salloc() -> None:
    line, _ = salloc(["--gres=gpu:1", "-t", "1:00:00", "python", "t.py"], "/", "box")
    assert line[:3] == ["run", "--gpus=1", "--time=3600s"] and line[-3:] == ["--", "python", "t.py"]
    assert "--pty" in salloc([], "/", "box")[0]


SIGNALS = {
    "-s USR1 12": (10, [None], False, True),
    "--signal=SIGINT 12": (2, [None], False, True),
    "--batch --signal=10 12": (10, [None], True, False),
    "-f -s TERM 12": (15, [None], True, True),
    "-s USR1 12.0 12.1": (10, ["0", "1"], False, True),
    "12.3": (15, ["3"], False, True),
    "12": None,
    "-s USR1 13": None,
    "-s USR1": None,
}


@pytest.mark.parametrize("words", SIGNALS)
def test_signals_of_scancel_in_its_own_job(words: str) -> None:
    assert signal_in(words.split(), "12") == SIGNALS[words]


def test_elements() -> None:
    assert elements("1,2_3,4_[0,2-3]%2") == ["1", "2_3", "4_0", "4_2", "4_3"]


def test_rad_lines_stand_beside_those_of_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", {"SBATCH_COMMENT": "no", "SBATCH_TIMELIMIT": "5"})
    script = Path("job.sbatch")
    script.write_text("#SBATCH -c2\n#RAD --gpus=2 --output=a.log --gpu-memory=8G\ntrue\n")
    raw = request_of(["job.sbatch", "x"]).raw_options
    assert raw == {"time": "300s", "cpus": "2", "name": "job.sbatch"}
    assert request_of(["-G1", "-o", "b", "job.sbatch"]).raw_options | {"cpus": "2"} == {
        **raw, "gpus": "1", "output": "b",
    }  # fmt: skip
    request = request_of(["--wrap=true", "--gres=gpu:1", "-W"])
    assert request.command[-1] == "true" and request.wait and request.slurm


ABSENT = {
    "cp data $SLURM_TMPDIR\n": True,
    "true\ncp data ${SLURM_SCRATCH}/x\n": True,
    "# $SLURM_TMPDIR\necho ${SLURM_TMPDIR:-/tmp} $SLURM_JOB_ID $SLURM_STEP_ID\n": False,
    "export SLURM_TMPDIR=/tmp\ncp data $SLURM_TMPDIR\n": False,
    "cp data $SLURM_SET_BEFORE $XSLURM_TMPDIR\n": False,
}


def test_a_variable_that_jobs_have_only_elsewhere_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for text, named in ABSENT.items():
        monkeypatch.setattr(os, "environ", {"SLURM_SET_BEFORE": "1"})
        Path("job.sbatch").write_text(text)
        request_of(["job.sbatch"])
        assert ("is not set here" in capsys.readouterr().err) == named, text


def test_variables_of_jobs_are_known() -> None:
    words = ("-n2", "--gpus-per-task=1", "-c1", "--mem=1G", "-O", "-a1-2", "-A=x", "-q=y")
    found = translate(read(words, "")[0], "/", "box").variables
    assert {name for name in found if name.startswith("SLURM")} - {"SLURMD_NODENAME"} <= VARIABLES


def install(folder: Path, *words: str) -> str:
    found = invoke("install-slurm-names", str(folder), *words)
    return found.stdout if found.exception is None else str(found.exception)


def test_the_commands_are_written_and_only_radrms_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    folder = tmp_path / "a b"
    assert "To find them" in install(folder)
    assert sorted(os.listdir(folder)) == sorted(NAMES)
    assert os.access(folder / "sbatch", os.X_OK)
    monkeypatch.setenv("PATH", str(folder))
    assert "To find them" not in install(folder)
    (folder / "squeue").write_text("#!/bin/sh\n")
    assert "has a Slurm" in install(folder)
    assert "is not radrm's" in install(folder, "--force")
    assert (folder / "squeue").read_text() == "#!/bin/sh\n"


@pytest.mark.daemon
def test_a_script_of_slurm_runs(daemon: DaemonHome, tmp_path: Path) -> None:
    install(tmp_path / "bin", "--force")
    script = tmp_path / "job.sbatch"
    script.write_text(
        "#!/bin/bash\n#SBATCH -J train -p gpu --array=4-5 --comment='two words'\n"
        "echo $SLURM_JOB_ID $SLURM_JOB_NAME $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID\n"
    )

    def run(name: str, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(tmp_path / "bin" / name), *words], env=daemon.environment, cwd=tmp_path,
            text=True, capture_output=True, timeout=60, input=given,
        )  # fmt: skip

    found = run("sbatch", "-W", "job.sbatch")
    assert (found.returncode, found.stdout) == (0, "Submitted batch job 1\n"), found.stderr
    assert found.stderr == (
        "radrm: note: has no meaning on one server, and is left out: --partition\n"
    )
    assert (tmp_path / "slurm-1_5.out").read_text() == "2 train 1 5\n"
    found = run("sbatch", "--parsable", "-W", given="#!/bin/sh\n#SBATCH -t 5\nexit 3\n")
    assert (found.returncode, found.stdout) == (3, "3\n")
    script.write_bytes(
        b"\xef\xbb\xbf#!/bin/bash\r\n#SBATCH -o args.log -n 2 # tasks\r\n"
        b'echo "$1,$2,$SLURM_NTASKS"\r\n#SBATCH -t 5\r\n'
    )
    found = run("sbatch", "--hold", "--parsable", "job.sbatch", "a b", "--hold")
    assert (found.returncode, found.stdout) == (0, "4\n")
    assert "byte order mark" in found.stderr and "line 4 is after the first" in found.stderr
    planned = run("sbatch", "--test-only", "job.sbatch", "a b")
    for note in found.stderr.splitlines():
        assert note.removeprefix("radrm: note: job.sbatch: ") in planned.stdout
    script.write_text("exit 1\n")  # the job has a copy
    daemon.radrm("release", "4")
    daemon.radrm("wait", "4")
    assert (tmp_path / "args.log").read_text() == "a b,--hold,2\n"
    assert run("sinfo", "-h").stdout.split()[:5] == ["gpu*", "up", "infinite", "1", "idle"]
    assert run("scancel", "99").returncode == 1


INSIDE = """#!/bin/bash
#SBATCH --gres=gpu:2 --ntasks-per-node=2 --cpus-per-task=1 --mem=1G --time=60 --account=lab
env | grep '^SLURM' >variables
srun sh -c 'echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES' >steps
scontrol show hostnames >hosts
scontrol -o show job $SLURM_JOB_ID >shown
squeue -h -o %i -j $SLURM_JOB_ID >queued
sacct -nPj $SLURM_JOB_ID -o jobid,state,elapsed,ncpus >rows
seff $SLURM_JOB_ID >used
sprio >absent 2>&1
scontrol update jobid=$SLURM_JOB_ID timelimit=2:00:00
[ -n "$SLURM_RESTART_COUNT" ] || scontrol requeue $SLURM_JOB_ID && sleep 9
"""


@pytest.mark.daemon
def test_what_a_job_finds_of_slurm(daemon: DaemonHome, tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text(INSIDE)
    install(tmp_path / "bin", "--force")

    def run(name: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(tmp_path / "bin" / name), *words], env=daemon.environment, cwd=tmp_path,
            text=True, capture_output=True, timeout=60,
        )  # fmt: skip

    done = run("sbatch", "-W", "job.sbatch")
    assert "job.sbatch line 10: sprio" in done.stderr and done.returncode == 0, done.stderr
    host = os.uname().nodename
    read = {each.name: each.read_text() for each in tmp_path.iterdir() if each.is_file()}
    variables = dict(line.split("=", 1) for line in read["variables"].splitlines())
    assert {name: variables.get(name) for name in EXPECTED} == EXPECTED
    for name in ("NODELIST", "JOB_NODELIST", "STEP_NODELIST", "TOPOLOGY_ADDR"):
        assert variables.get(f"SLURM_{name}") == (None if name.startswith("STEP") else host)
    both = variables["SLURM_JOB_GPUS"]
    assert len(both.split(",")) == 2
    steps = [line.split() for line in sorted(read["steps"].splitlines())]
    assert [each[0] for each in steps] == ["0", "1"] and steps[0][1] == steps[1][1]
    assert read["hosts"] == f"{host}\n" and read["queued"] == "1\n"
    assert "JobId=1 " in read["shown"] and "JobState=RUNNING" in read["shown"]
    assert read["rows"].startswith("1|RUNNING|00:") and read["rows"].endswith("|2\n")
    assert "State: RUNNING" in read["used"] and "radrm explain" in read["absent"]
    # An ended job is no longer in the queue; one that never was is an error.
    assert run("squeue", "-h", "-j", "1").stdout == ""
    assert run("squeue", "-j", "99").returncode == 1
    unknown_name = run("squeue", "-n", "nosuch", "-o", "%i %N")
    assert (unknown_name.returncode, unknown_name.stdout) == (0, "JOBID EXEC_HOST\n")
    assert run("scancel", "--name=nosuch").returncode == 0 != run("scancel", "99").returncode
    for path in (f"Command={tmp_path}/job.sbatch", f"StdOut={tmp_path}/slurm-1.out"):
        assert f" {path}" in read["shown"]
    assert run("sacct", "-nPXj", "1", "-o", "JobID,ExitCode").stdout == "1|0:0\n"


EXPECTED = {
    "SLURM_JOB_ID": "1", "SLURM_JOBID": "1", "SLURM_JOB_NAME": "job.sbatch", "SLURM_NNODES": "1",
    "SLURM_JOB_NUM_NODES": "1", "SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
    "SLURM_NTASKS": "2", "SLURM_NPROCS": "2", "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_TASKS_PER_NODE": "2", "SLURM_CPUS_PER_TASK": "1", "SLURM_CPUS_ON_NODE": "2",
    "SLURM_JOB_CPUS_PER_NODE": "2", "SLURM_GPUS_ON_NODE": "2", "SLURM_MEM_PER_NODE": "1024",
    "SLURM_JOB_ACCOUNT": "lab", "SLURM_RESTART_COUNT": "1", "SLURM_ARRAY_JOB_ID": None,
    "SLURM_STEP_ID": None, "SLURM_GPUS_PER_TASK": None,
}  # fmt: skip
