"""The examples, as they are shipped: each is read without a remark, and each job completes.

Where a job needs PyTorch or conda, a stand-in on its PATH loads the simulated GPU in its place.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from radrm.jobfile.radfile import read_job_file
from tests.daemon.harness import DaemonHome
from tests.paths import REPOSITORY
from tests.waiting import PATIENCE_S, wait_until

EXAMPLES = REPOSITORY / "examples"
FILES = sorted((EXAMPLES / "rad_files").glob("*.rad"))
GPUS = "sim:2xA100-40GB,1xA100-40GB:1g.5gb+1g.5gb"
NOTES = {
    "published_form": (
        "read in the prototype's form, line by line; a script begins with #!",
        "policy 'exclusive' in the file is ignored; the server's configuration decides",
    )
}
TRAINING = """#!/bin/sh
# In place of {name}: says what it was asked to do, and does it on simulated GPUs.
echo "{name} $*"
exec radrm-simjob --gpu-memory 1G --smact 0.2 --seconds 20 --ramp 2 --gpus {gpus}
"""
RESUMABLE = """#!/bin/bash
# In place of python: saves itself when it is warned, and is done once it has resumed.
case "$*" in
  *train_resumable.py*" --checkpoints $RADRM_CHECKPOINT_DIR") folder=$RADRM_CHECKPOINT_DIR ;;
  *) echo "asked to do $*" >&2; exit 2 ;;
esac
if [ -e "$folder/last.pt" ]; then rm "$folder/last.pt"; echo resumed; exit 0; fi
trap 'echo saved; touch "$folder/last.pt"; exit 75' USR1
echo ready
while :; do sleep 0.02; done
"""


@pytest.fixture
def home(home: DaemonHome) -> DaemonHome:
    """A daemon to be, a copy of the examples to work in, and stand-ins on the jobs' PATH."""
    shutil.copytree(EXAMPLES, home.work, dirs_exist_ok=True)
    home.gpus = GPUS
    stand_ins = home.folder / "stand-ins"
    stand_ins.mkdir()
    home.environment["PATH"] = f"{stand_ins}:{home.environment['PATH']}"
    put(home, "python", TRAINING.format(name="python", gpus=1))
    put(home, "torchrun", TRAINING.format(name="torchrun", gpus=2))
    put(home, "radrun", TRAINING.format(name="radrun", gpus=1))
    put(home, "conda", '#!/bin/sh\necho "conda $*"\n')
    # The published form runs in a login shell, whose own files say where conda is.
    (home.folder / ".bash_profile").write_text(f"PATH='{home.environment['PATH']}'\n")
    home.environment["HOME"] = str(home.folder)
    return home


def put(home: DaemonHome, name: str, text: str) -> None:
    program = home.folder / "stand-ins" / name
    program.write_text(text)
    program.chmod(0o755)


# ------------------------------------------------------------------ as text


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_is_read_without_a_remark_and_says_what_it_shows(file: Path) -> None:
    read = read_job_file(file.read_bytes(), file.name, {})
    assert read.notes == NOTES.get(file.stem, ())
    first = next(line for line in file.read_text().splitlines() if not line.startswith("#!"))
    assert first.startswith("# ")
    assert len(first.split()) > 5


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_it_names_is_there(file: Path) -> None:
    words = file.read_text().split()
    named = [word for word in words if word.startswith("training/")]
    assert all((EXAMPLES / word).is_file() for word in named)
    assert named or file.stem in ("no_gpu", "published_model")


def test_the_overview_has_every_file() -> None:
    overview = (EXAMPLES / "README.md").read_text()
    scripts = sorted((EXAMPLES / "training").glob("*.py"))
    for file in [*FILES, *scripts]:
        assert f"]({file.relative_to(EXAMPLES)})" in overview


# ------------------------------------------------------------------ as jobs


@pytest.mark.daemon
def test_all_of_them_complete_and_the_sweep_gives_each_element_its_own_rate(
    home: DaemonHome,
) -> None:
    home.start()
    files = [str(file.relative_to(EXAMPLES)) for file in FILES]
    done = home.radrm("submit", "--json", *files)
    assert done.returncode == 0, done.stderr
    names = {result["name"] for result in json.loads(done.stdout)}
    assert len(names) == len(FILES)
    wait_until(lambda: not home.ask("status"), "the examples to end", 4 * PATIENCE_S)
    jobs = home.ask("status", all=True)
    assert {job["name"] for job in jobs} == names
    assert len(jobs) == len(FILES) - 1 + 10  # the sweep's ten
    assert {(job["name"], job["state"]) for job in jobs} == {(n, "COMPLETED") for n in names}
    by_name = {job["name"]: job for job in jobs}
    profile = {device["uuid"]: device["profile"] for device in home.ask("gpus")}
    assert [profile[uuid] for uuid in by_name["slice"]["devices"]] == ["1g.5gb"]
    assert len(by_name["ddp"]["devices"]) == 2
    # A MIG instance takes one job at a time anyway.
    assert by_name["alone"]["collocation"] in ("exclusive", "mig")
    assert by_name["prepare"]["devices"] == []
    told = home.output(by_name["published_form"]["id"])
    assert told.startswith("conda activate base\npython training/train.py --epochs 5")
    ports = home.output(by_name["ddp"]["id"]).split("--master-port=")[1].split()
    assert ports[0].isdecimal()
    logs = {int(each.stem.split("_")[1]): each for each in home.work.glob("sweep-*.out")}
    said = [logs[index].read_text() for index in range(10)]
    rates = [float(text.split("--learning-rate ")[1].split()[0]) for text in said]
    assert rates == sorted(set(rates))
    times = [(job["started_at"], job["ended_at"]) for job in jobs if job["name"] == "sweep"]
    beside = [sum(start <= one < end for start, end in times) for one, _ in times]
    assert max(beside) <= 4, "more of the sweep ran at a time than it allows"


@pytest.mark.daemon
def test_a_dependent_job_starts_after_the_other_has_ended(home: DaemonHome) -> None:
    home.start()
    first = home.submit("rad_files/one_gpu.rad")
    second = home.submit(f"--after={first}", "rad_files/after.rad")
    assert home.wait_end(second)["state"] == "COMPLETED"
    assert home.job(second)["started_at"] >= home.job(first)["ended_at"]


@pytest.mark.daemon
def test_the_checkpointing_job_is_warned_saves_and_resumes(home: DaemonHome) -> None:
    put(home, "python", RESUMABLE)
    home.start()
    job = home.submit("--time=200000", "--signal=USR1@86400", "rad_files/checkpoint.rad")
    wait_until((home.work / f"radrm-{job}.out").exists, "its log")
    wait_until(lambda: home.output(job) == "ready\n", "it to handle the signal")
    assert home.radrm("edit", str(job), "--time=86401").returncode == 0
    done = home.wait_end(job)
    assert (done["state"], done["attempts"]) == ("COMPLETED", 2)
    assert home.output(job) == "ready\nsaved\n"
    assert (home.work / f"radrm-{job}.attempt2.out").read_text() == "resumed\n"
