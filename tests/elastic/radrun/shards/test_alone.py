"""The same program without `radrun`: one worker, and the same checkpoints."""

from __future__ import annotations

import ast
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import radrm
from radrm import elastic
from tests.elastic.radrun.shards.farm import ELASTIC, Farm
from tests.elastic.radrun.shards.test_workers import (
    LOCKSTEP,
    asking,
    each_once,
    mains,
    output,
    reached,
    stop,
)


def alone(farm: Farm, program: Path, *arguments: str, **environment: str) -> Any:
    """What the program prints, run by Python as a user does."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RADRM_")}
    found = subprocess.run(
        [sys.executable, str(program), *arguments],
        env={**kept, "PYTHONPATH": str(farm.path()), **environment},
        cwd=farm.folder, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def test_the_newest_checkpoint_has_the_highest_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADRM_CHECKPOINT_DIR", str(tmp_path))
    for number in ("999999", "1000000", "000007"):
        (tmp_path / f"elastic-{number}-0123abcd").touch()
    found = [name.split("-")[0] for name in elastic._checkpoints()]
    assert found == ["1000000", "999999", "000007"]


def test_rounds_alone_and_again(farm: Farm) -> None:
    """It saves at the end, in a folder of its own; another run has nothing left to do."""
    found = alone(farm, LOCKSTEP, asking(every_s=0.0))
    assert each_once(found["seen"], 1000, 2)
    again = alone(farm, LOCKSTEP, asking())
    assert again["start"] == 2000 and again["seen"] == found["seen"]
    folder = farm.folder / "elastic-checkpoints"
    assert len(list(folder.glob("elastic-*"))) == len(list((folder / "shards").iterdir())) == 2


def said(farm: Farm, job: str | None = None, **asked: Any) -> list[str]:
    """What a run outside radrm says on stderr, or as this job."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RADRM_")}
    kept |= {"RADRM_JOB_ID": job} if job else {}
    found = subprocess.run(
        [sys.executable, str(LOCKSTEP), asking(**asked)],
        env={**kept, "PYTHONPATH": str(farm.path())},
        cwd=farm.folder, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    return found.stderr.splitlines()


def test_another_run_says_where_it_goes_on_and_that_nothing_is_left(farm: Farm) -> None:
    folder = farm.folder / "elastic-checkpoints"
    assert said(farm, epochs=1, every_s=0.0) == []
    goes_on = f"radrm elastic: continues from {folder} at sample 1000; remove it to begin anew"
    assert said(farm, epochs=2, every_s=0.0) == [goes_on]
    nothing = "radrm elastic: nothing is left to do: all 2000 samples of 'train' are read"
    assert said(farm, epochs=2) == [goes_on.replace("1000", "2000"), nothing]
    assert said(farm, "7", epochs=2) == [nothing], "in radrm that is as it should be"


@pytest.mark.parametrize("first", ["alone", "radrun"])
def test_radrun_goes_on_with_a_checkpoint_of_one_alone_and_the_reverse(
    farm: Farm, first: str
) -> None:
    folder = {"RADRM_CHECKPOINT_DIR": str(farm.checkpoints)}
    if first == "alone":
        alone(farm, LOCKSTEP, asking(every_s=0.0, epochs=1), **folder)
        farm.begin(mains(2), LOCKSTEP, asking())
        found = output(farm, ("main", 1))
        assert found["start"] == 1000  # one epoch more than it had
    else:
        farm.begin(mains(2), LOCKSTEP, asking(pace_s=0.002))
        reached(farm, 1)
        stop(farm)
        found = alone(farm, LOCKSTEP, asking(), **folder)
        assert 0 < found["start"] < 2000
    assert each_once(found["seen"], 1000, 2)


def test_shards_alone(farm: Farm) -> None:
    found = alone(farm, LOCKSTEP, asking(loader={"batch": 6}, every_s=0.0))
    assert each_once(found["seen"], 1000, 2)
    assert alone(farm, LOCKSTEP, asking(loader={"batch": 6}))["start"] == 2000


def test_a_request_to_save_by_signal(farm: Farm) -> None:
    """As radrm sends it to a job with `--checkpoint=signal` that `python` runs."""
    asked = asking(samples=300, signals_at=2)
    environment = {
        "RADRM_CHECKPOINT_DIR": str(farm.checkpoints),
        "RADRM_REPORT_PY": str(Path(radrm.__file__).parent / "report.py"),
        "RADRM_CHECKPOINT_SIGNAL": "10",
        "RADRM_JOB_ID": "7",
    }
    found = alone(farm, LOCKSTEP, asked, **environment)
    assert each_once(found["seen"], 300, 2)
    record = json.loads((farm.checkpoints / "saved.json").read_text())
    assert record["step"] == record["total"] == 20  # 10 rounds an epoch
    assert len(list(farm.checkpoints.glob("elastic-*"))) == 2


def test_several_workers_need_radrun(farm: Farm) -> None:
    with pytest.raises(AssertionError, match="several workers need radrun"):
        alone(farm, LOCKSTEP, asking(), WORLD_SIZE="2")


def test_one_name_for_two_datasets_is_refused(farm: Farm) -> None:
    program = farm.folder / "two.py"
    program.write_text(
        "from radrm import elastic\n"
        "for n in (10, 20):\n"
        "    data = elastic.ShardedDataset(range(n))\n"
        "    print(next(elastic.loader(data, global_batch=2)))\n"
    )
    words = "dataset 'train' has samples=20 here and samples=10 in the checkpoint or in another"
    with pytest.raises(AssertionError, match=words):
        alone(farm, program)


EXAMPLES = Path(radrm.__file__).parents[1] / "examples" / "training"


def test_the_example_without_torch(farm: Farm) -> None:
    for task in mains(2):
        farm.begin(mains(2), EXAMPLES / "process_elastic.py", "--items", 500)
        out, errors = farm.workers[task].communicate(timeout=240)
        assert out.startswith("done"), errors
        assert farm.wait() == dict.fromkeys(mains(2), 0)
    results = {path.name: int(path.read_text()) for path in (farm.folder / "results").iterdir()}
    assert len(results) == 500 and results["77.txt"] == 7


# -------------------------------------------------------------------- the file


def test_it_is_a_file_for_python_3_8_without_radrm() -> None:
    tree = ast.parse(ELASTIC.read_text("utf-8"), feature_version=(3, 8))
    assert isinstance(tree.body[1], ast.ImportFrom) and tree.body[1].module == "__future__"
    found = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert found - {"torch"} <= set(sys.stdlib_module_names)


@pytest.mark.skipif(
    subprocess.run(["python3.8", "-c", ""], capture_output=True).returncode != 0
    if shutil.which("python3.8")
    else True,
    reason="no Python 3.8 here",
)
def test_it_runs_in_python_3_8(tmp_path: Path) -> None:
    farm = Farm(tmp_path, "python3.8")
    try:
        farm.begin(mains(2), LOCKSTEP, asking())
        assert each_once(output(farm, ("main", 0))["seen"], 1000, 2)
    finally:
        farm.close()


@pytest.mark.parametrize("samples", [1, 2, 3, 10, 97, 1000])
def test_an_order_is_a_permutation(samples: int) -> None:
    for seed, epoch in itertools.product((0, 1, -5), (0, 1)):
        order = elastic.Order(samples, seed, epoch)
        assert sorted(order[i] for i in range(samples)) == list(range(samples))


def test_orders_are_mixed_and_differ() -> None:
    def order(seed: int | None, epoch: int) -> list[int]:
        found = elastic.Order(1000, seed, epoch)
        return [found[i] for i in range(1000)]

    one = order(1, 0)
    assert order(None, 3) == list(range(1000))
    assert one == order(1, 0) != order(1, 1) != order(2, 0)
    for tenth in range(10):  # each tenth of the order takes from all of the dataset
        part = one[tenth * 100 : tenth * 100 + 100]
        assert all(2 <= sum(i // 100 == j for i in part) <= 25 for j in range(10))
    assert sum(abs(a - b) == 1 for a, b in itertools.pairwise(one)) < 12


@pytest.mark.parametrize(
    "asked", [{}, {"global_batch": 2, "batch": 2}, {"global_batch": 0}, {"batch": True}]
)
def test_senseless_batches_are_refused(asked: dict[str, Any]) -> None:
    data = elastic.ShardedDataset(range(10))
    with pytest.raises(elastic.ElasticError, match="batch"):
        next(elastic.loader(data, **asked))
