"""From a job file to the words of sbatch: `radrm submit --cluster`."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.config import Config, SlurmConfig
from radrm.errors import RadrmError
from radrm.jobfile.command_line import parse_submit
from radrm.jobfile.options import OPTIONS
from radrm.slurm import submitting
from radrm.slurm.scripts import unwrap
from radrm.slurm.setup import MARGIN_MIB
from radrm.slurm.submitting import REFUSED, TO_SLURM, ClusterJob, prepare

CONFIG = Config(slurm=SlurmConfig(partition="gpus", default_gpumem="5G", local_wait_s=600))
ALWAYS = ("--parsable", "--requeue", "--partition=gpus")


@pytest.fixture(autouse=True)
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The nodes of the partition, and their gpumem: none is known."""
    found: list[tuple[str, int]] = []
    monkeypatch.setattr(submitting, "nodes_of", lambda *words: found)
    return found


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "train.rad"
    path.write_text("#!/bin/bash\n#RAD --gpu-memory=8G\npython train.py\n")
    return path


def asked(job: Path, *words: str) -> ClusterJob:
    return prepare(parse_submit([*words, str(job)]), str(job), CONFIG)


def test_a_declared_need_is_asked_for_with_the_margin(job: Path) -> None:
    found = asked(job, "--gpus=2")
    assert found.gpumem_mib == 2 * (8192 + MARGIN_MIB)
    assert found.words == (*ALWAYS, "--job-name=train", f"--gres=gpumem:{found.gpumem_mib}")


@pytest.mark.parametrize(("memory", "mib"), [("20G", 23_552), ("20G:30G", 22_528)])
def test_the_margin_of_a_large_need_is_a_part_of_it(job: Path, memory: str, mib: int) -> None:
    assert asked(job, f"--gpu-memory={memory}").gpumem_mib == mib


@pytest.mark.parametrize(
    ("need", "gpus", "asked_mib"),
    [("8G", 2, 20480), ("39G", 2, 81920), ("40G", 2, 81920), ("41G", 2, 83968), ("79G", 1, 81920)],
)
def test_the_margin_keeps_no_job_off_the_largest_node(
    job: Path, nodes: list[tuple[str, int]], need: str, gpus: int, asked_mib: int
) -> None:
    nodes += [("g1", 81920), ("g2", 40960), ("login", 0)]
    assert asked(job, f"--gpus={gpus}", f"--gpu-memory={need}").gpumem_mib == asked_mib


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("--time=1h", "--time=60"),
        ("--time=61s", "--time=2"),
        ("--array=0-3,7,9-10%2", "--array=0-3,7,9-10%2"),
        ("--after=12", "--dependency=afterok:12"),
        ("--after=12_3:any", "--dependency=afterany:12_3"),
        ("--after=12:failed", "--dependency=afternotok:12"),
        ("--cpus=2.5", "--cpus-per-task=3"),
        ("--memory=12G", "--mem=12288M"),
        ("--output=log/%j.out", "--output=log/%j.out"),
        ("--hold", "--hold"),
        ("--name=x y", "--job-name=x y"),
    ],
)
def test_what_slurm_must_know_becomes_its_option(job: Path, option: str, word: str) -> None:
    assert word in asked(job, option).words


def test_what_the_daemon_must_know_travels_in_the_script(job: Path) -> None:
    found = asked(job, "--gpus=2", "--env=A=b 'c'", "--retries=3", "--array=0-1", "--time=1h")
    script, options = unwrap(found.script)
    assert script == job.read_text()
    assert options == {"gpus": "2", "env": ["A=b 'c'"], "retries": "3"}


def test_a_script_can_be_submitted_again_as_it_travelled(job: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.rad"
    again.write_text(asked(job, "--gpus=2").script)
    assert asked(again).gpumem_mib == asked(job, "--gpus=2").gpumem_mib


def test_a_command_keeps_its_words(job: Path) -> None:
    request = parse_submit(["--gpu-memory=1G", "--", "echo", "a b", "$HOME", "it's"])
    script, _ = unwrap(prepare(request, None, CONFIG).script)
    assert script == "#!/bin/sh\nexec echo 'a b' '$HOME' 'it'\"'\"'s'\n"


def test_of_an_unknown_job_the_default_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x.rad"
    path.write_text("echo\n")
    found = asked(path, "--gpus=2")
    assert (found.gpumem_mib, found.source) == (2 * 5 * 1024, "slurm.default_gpumem")
    assert not any("gres" in word for word in asked(path, "--gpus=0").words)


VALUES = {
    "param": "lr=1,2",
    "params": "x.csv",
    "max-fails": "3",
    "snapshot": ".",
    "after": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "output": "%t.out",
    "gpus": "1-4",
    "role": "ps:2,cpus=1",
}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_what_cannot_go_to_a_cluster_is_refused_in_one_line(job: Path, name: str) -> None:
    with pytest.raises(RadrmError) as caught:
        asked(job, f"--{name}={VALUES[name]}")
    assert "\n" not in str(caught.value)


def test_each_option_of_the_table_has_a_decision() -> None:
    """A new option goes to the daemon of the node, unless one of these tables names it."""
    names = {each.name for each in OPTIONS}
    assert names >= TO_SLURM | REFUSED.keys()
    assert not TO_SLURM & REFUSED.keys()
