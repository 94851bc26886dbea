"""A wrong usage ends with 2, whatever the program, the command and the kind of mistake."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from radrm.cli import main as entry
from radrm.cli.listing import commands as listed
from radrm.elastic.radrun import main as radrun
from radrm.host.simulated import simjob
from radrm.slurm import named as slurm_commands

WRONG = """
frobnicate
--frobnicate
submit
submit --frob -- true
submit --gpus -- true
submit --gpus=x -- true
submit --gpus=1 --gpus=2 -- true
submit --time=soon -- true
submit job.rad job.rad -- true
submit job.rad 0.1 --lr=3
submit job.rad 0.1
submit --
submit --parsable --json -- true
submit --at-once=2 -- true
submit --array=5-1 -- true
submit --array=0-3 --param=a=1 -- true
submit --param=a -- true
submit --param=a=3:1 -- true
submit --param=a=0.1:0.5:0.1 -- echo {a}
submit --param=lr=1,2 -- echo {lrr}
submit --after=x:sometimes -- true
submit --notify=bogus -- true
submit --begin=yesterday -- true
submit --begin=2020-01-01 -- true
submit --chdir=/no/such/folder -- true
submit --checkpoint-cost=3s -- true
submit --signal=USR1@10 -- true
submit --retry-on=1 -- true
submit --mig-profile=1g.5gb --collocation=mps -- true
submit --lines=f job.rad
submit --progress-pattern=( -- true
submit --slurm --frob=1 job.rad
submit --slurm --time=x --wrap=true
submit --pilot --wait --time=1h -- true
submit wrong.rad
submit pair.rad
submit env -- true wrong.rad --gpus=x
submit --dry-run wrong.rad
submit --wait wrong.rad
submit echo job.rad
run
run --frob -- true
run --gpus=x -- true
run --array=0-1 -- true
run --pty -- true
edit
edit 3
edit 3 --frob=1
edit 3 --gpus=x
edit 3 --array=0-3
status --frob
status --limit=x
status --limit=0
status --no-header
status --format={foo}
status --format=%
status --format=%i --json
status --cluster 3
history --format={foo}
history --since=whenever
history --frob
logs
logs --frob 3
logs --lines=x 3
logs 3 --attempt=0
explain
explain 1 2
wait
wait --frob 3
cancel
cancel --frob 3
hold
release
requeue
checkpoint
migrate
migrate 3 --frob
resize
resize 3
resize 3 --gpus=x
progress --frob
progress
gpus extra
drain --frob
resume --frob
reserve --frob
shares --frob
limits --frob
report --frob
report --by=nothing
report --since=whenever
usage --frob
usage --since=whenever
top --frob
top --interval=x
serve --port 8080
serve --listen=nowhere
serve --listen=1.2.3.4:99999
metrics --listen=x
metrics --frob
mcp --frob
mps
mps frob
mps start --frob
slurm
slurm frob
slurm-step
pilot --frob
spool --frob
watch
watch --frob .
profile
profile --frob job.rad
bench
bench frob
estimate
estimate --frob=1 job.rad
estimate --estimator=nobody job.rad
estimate --gpus=x job.rad
estimators --frob
summarize
summarize nope
summarize nope:make --frob=1
summarize nope:make --array=0-1
simulate
simulate --frob
simulate trace.csv --policy=nobody
simulate trace.csv --set=nothing=1
simulate trace.csv --gpus=sim:x
simulate --jobs=x
compare
compare --frob
compare trace.csv --policy=nobody
trace
trace frob
replay --frob
init --frob
daemon --frob
daemon --gpus=sim:x
daemon --gpus=x
daemon --gpus=sim:2xA100-40GB --time-scale=nan
daemon --gpus=sim:2xA100-40GB --set=nothing=1
daemon --gpus=sim:2xA100-40GB --set=nothing
daemon --gpus=sim:2xA100-40GB --set=policy=nobody
daemon --gpus=sim:2xA100-40GB --set=core.grace_s=x
doctor --frob
config
config frob
config show --frob
config show --set=x
demo --frob
completion
completion tcsh
service
service install --frob
service remove --frob
service status --frob
install-slurm-names
"""

OTHERS = {
    "radrmd": ["--frob", "--gpus=sim:x", "--set=nothing=1 --gpus=sim:1xA100-40GB"],
    "radrun": [
        "",
        "--frob",
        "--nproc-per-node=x a.py",
        "--role=1 a.py",
        "--nnodes=2 a.py",
        "-x a.py",
    ],
    "radrm-simjob": ["--frob", "--smact=x", ""],
    "slurm": [
        "sbatch --frob=1 job.rad",
        "squeue --frob",
        "scancel --frob",
        "sinfo --frob",
        "nothing",
    ],
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADRM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RADRM_CONFIG", str(tmp_path / "radrm.toml"))
    monkeypatch.delenv("RADRM_SIMULATED_GPUS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "radrm.toml").write_text("")
    (tmp_path / "job.rad").write_text("#!/bin/sh\ntrue\n")
    (tmp_path / "wrong.rad").write_text("#!/bin/sh\n#RAD --gpus=x\ntrue\n")
    (tmp_path / "pair.rad").write_text("#!/bin/sh\n#RAD --max-fails=3\ntrue\n")
    (tmp_path / "trace.csv").write_text(
        "submit_s,name,gpus,duration_s,memory_mib,smact\n0,a,1,9,9,1\n"
    )

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(entry, "_leave", leave)


def code_of(monkeypatch: pytest.MonkeyPatch, program: str, words: list[str]) -> object:
    monkeypatch.setattr(sys, "argv", [program, *words])
    mains = {
        "radrm": entry.main,
        "radrmd": entry.daemon,
        "radrun": radrun.main,
        "radrm-simjob": simjob.main,
        "slurm": slurm_commands.main,
    }
    try:
        return mains[program]()
    except SystemExit as ended:
        return ended.code


LINES = [
    *(("radrm", line) for line in WRONG.strip().splitlines()),
    *((program, line) for program, lines in OTHERS.items() for line in lines),
]


@pytest.mark.parametrize(("program", "line"), LINES, ids=[" ".join(each) for each in LINES])
def test_a_wrong_usage_ends_with_2(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    program: str,
    line: str,
) -> None:
    code = code_of(monkeypatch, program, shlex.split(line))
    said = capfd.readouterr()
    assert code == 2, said.err
    assert "Traceback" not in said.err


def test_every_command_has_a_wrong_usage() -> None:
    named = {line.split()[0] for line in WRONG.strip().splitlines()}
    assert set(listed()) <= named
