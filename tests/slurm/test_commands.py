"""A cluster as its users and administrators meet it: job_submit.lua, and `--cluster`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from benchmarks.cluster.place import OF_NODES, prepare
from radrm.config import SlurmConfig
from radrm.slurm.setup import job_submit_lua
from tests.daemon.harness import DaemonHome
from tests.documents import errors_of
from tests.forks import daemons
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import need_slurm
from tests.waiting import wait_until

NODE = "g1"
Radrm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def site() -> Iterator[Cluster]:
    """A cluster whose partition has the rules that `radrm slurm setup` prints."""
    need_slurm()
    place = Cluster(lua=job_submit_lua(SlurmConfig()))
    try:
        place.start()
        prepare(place)
        yield place
    finally:
        place.stop()


@pytest.fixture(scope="module")
def home(site: Cluster) -> DaemonHome:
    return site.daemon(NODE, [each.replace("%n", NODE) for each in OF_NODES], scale=20.0)


@pytest.fixture(scope="module")
def radrm(site: Cluster, home: DaemonHome) -> Radrm:
    """Commands on a login node: no daemon is theirs."""
    for node in ("g2", "g3"):
        site.scontrol("update", f"NodeName={node}", "State=DRAIN", "Reason=test")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return daemons.run(words, {**site.env, "HOME": str(site.work)}, site.work)

    return run


def test_an_unchanged_script_shares_a_gpu(site: Cluster, radrm: Radrm, home: DaemonHome) -> None:
    job = site.sbatch("#!/usr/bin/python3\nimport os\nprint(os.environ['CUDA_VISIBLE_DEVICES'])\n")
    assert site.wait(job) == ("COMPLETED", "0:0")
    (document,) = [d for d in home.json("status", "--all") if f":{job}." in (d["outer"] or "")]
    assert site.output(job).split() == document["devices"]
    assert "gpumem:6144" in site.job(job)["TresPerNode"]


def test_what_a_script_declares_is_what_slurm_counts(
    site: Cluster, radrm: Radrm, home: DaemonHome
) -> None:
    lines = "#RAD --gpu-memory=9G --gpus=2\n#RAD --time=1h30m"
    job = site.sbatch(f"#!/bin/sh\n{lines}\necho $RADRM_GPU_MEMORY_MIB\n")
    assert site.wait(job) == ("COMPLETED", "0:0")
    assert site.job(job)["TimeLimit"] == "01:30:00"
    assert home.json("status", "--all")[-1]["time_limit_s"] == 5400
    assert f"gpumem:{2 * (9216 + 2048)}" in site.job(job)["TresPerNode"]
    assert site.output(job) == "9216\n"


def test_elements_of_an_array_know_their_numbers_and_what_was_asked(
    site: Cluster, radrm: Radrm, home: DaemonHome
) -> None:
    body = "#!/bin/sh\necho $RADRM_ARRAY_ID $RADRM_ARRAY_TASK_ID >> array\n"
    array = site.sbatch(body, "--array=3-4", "--gres=gpumem:7000")
    found = site.work / "array"
    wait_until(lambda: found.exists() and found.read_text().count("\n") == 2, "both elements")
    assert {*found.read_text().splitlines()} == {f"{array} 3", f"{array} 4"}
    assert {d["estimate_mib"] for d in home.json("status", "--all")[-2:]} == {7000}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-N2",), "jobs of one node"),
        (("--exclusive",), "leave out --exclusive"),
        (("-p", "whole,shared"), "name it alone"),
        (("--gres=gpumem:999999999",), "Requested node configuration is not available"),
        (("-p", "nowhere"), "invalid partition"),
    ],
)
def test_refusals(site: Cluster, words: tuple[str, ...], said: str) -> None:
    done = site.submit("echo", *words)
    assert done.returncode == 1 and said in done.stderr


def test_a_submission_answers_in_one_document(site: Cluster, radrm: Radrm) -> None:
    words = "submit", "--cluster", "--json", "--gpu-memory=1G", "--hold", "--name=held"
    answers = [json.loads(radrm(*words, *dry, "--", "true").stdout) for dry in ((), ("--dry-run",))]
    assert [errors_of(("submit",), answer) for answer in answers] == [[], []]
    (made,), (dry,) = answers
    assert site.job(made["id"])["JobName"] == "held"
    assert dry == {**made, "id": None}
    assert radrm(*words[:2], "--dry-run", "--", "true").stdout.startswith("sbatch --parsable")
    site.run("scancel", str(made["id"]))


def test_a_job_file_goes_to_the_cluster_and_its_code_comes_back(
    site: Cluster, radrm: Radrm, home: DaemonHome
) -> None:
    (site.work / "train.rad").write_text(
        '#!/bin/bash\n#RAD --gpu-memory=5G --time=10m\necho "$A $RADRM_JOB_NAME"; exit 4\n'
    )
    done = radrm("submit", "--cluster", "--env=A=b 'c'", "--wait", "train.rad")
    assert done.returncode == 4, done.stderr
    assert "asks for 7.0G of GPU memory (declared)" in done.stdout
    number = done.stdout.split()[3]
    assert radrm("logs", "--cluster", number).stdout == "b 'c' train\n"
    explained = radrm("explain", "--cluster", number).stdout
    assert "FAILED" in explained and "7.0G of GPU memory (gpumem:7168)" in explained
    assert home.json("status", "--all")[-1]["time_limit_s"] == 600


def test_the_queue_says_why_a_job_waits_for_its_gpu(
    site: Cluster, radrm: Radrm, home: DaemonHome
) -> None:
    radrm("submit", "--cluster", "--gpu-memory=1G", "--hold", "--name=held", "--", "true")
    asked = "status", "--cluster"
    rows = json.loads(radrm(*asked, "--json").stdout)
    assert errors_of(asked, rows) == []
    (held,) = [row for row in rows if row["name"] == "held"]
    assert (held["state"], held["reason"], held["gpumem_mib"]) == ("PENDING", "JobHeldUser", 3072)
    assert "it is held" in radrm("explain", "--cluster", held["id"]).stdout
    asked = "explain", "--cluster"
    assert errors_of(asked, json.loads(radrm(*asked, "--json", held["id"]).stdout)) == []
    assert "held" in radrm("status", "--cluster").stdout
    site.run("scancel", held["id"])


def test_slurms_own_words_reach_the_user(site: Cluster, radrm: Radrm) -> None:
    done = radrm("submit", "--cluster", "--gpu-memory=400G", "--", "true")
    assert done.returncode == 1
    assert done.stderr == (
        "radrm: sbatch: error: Batch job submission failed: Requested node configuration is not "
        "available\n"
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("explain", "--cluster", "99999"), 1, "Slurm does not know job 99999"),
        (("logs", "--cluster", "x;y"), 1, "is no number of a Slurm job"),
        (("status", "--cluster", "--all"), 2, "--cluster goes with"),
    ],
)
def test_mistakes_are_one_line(radrm: Radrm, words: tuple[str, ...], code: int, said: str) -> None:
    done = radrm(*words)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1)
    assert said in done.stderr


def test_without_slurm_it_says_what_is_missing(
    radrm: Radrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    from radrm.errors import Refused
    from radrm.slurm import asking as programs

    monkeypatch.setattr(programs, "_PLACES", ())
    with pytest.raises(Refused, match="sbatch is not installed here"):
        programs.program("sbatch", path=os.path.dirname(__file__))


def test_a_report_without_slurmdbd_reads_the_completion_log(site: Cluster, radrm: Radrm) -> None:
    job = site.sbatch("true")
    assert site.wait(job)[0] == "COMPLETED"
    document = json.loads(radrm("report", "--cluster", "--json").stdout)
    assert errors_of(("report", "--cluster"), document) == []
    assert document["source"] == str(site.folder / "jobcomp.log")
    (row,) = [row for row in document["rows"] if row["name"] == "root"]
    assert row["completed"] >= 1 and row["gpu_s"] is row["gpumem_gib_h"] is None
    shown = radrm("report", "--cluster", "--by", "node")
    assert NODE in shown.stdout and "say nothing of their GPUs" in shown.stderr
