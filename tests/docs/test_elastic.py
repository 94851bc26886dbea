"""docs/elastic.md: its job files are read as it says, and its program runs."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from radrm.core.words import Resizing
from radrm.daemon.views.documents import JobDocuments
from radrm.elastic.planner import Elastic
from radrm.host.storage.store import Store
from radrm.jobfile.radfile import read_job_file
from tests.documents import whole
from tests.host.storage.stores import submission_of
from tests.paths import REPOSITORY
from tests.world import GIB, World, gpus

PAGE = (REPOSITORY / "docs" / "elastic.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("place", "roles", "resizing"),
    [
        (0, [("main", 1, 4)], Resizing.LIVE),
        (1, [("main", 1, 4)], Resizing.RESTART),
        (2, [("ps", 1, 4), ("worker", 1, 8)], Resizing.LIVE),
    ],
)
def test_the_job_files_are_what_the_page_says(
    place: int, roles: list[tuple[str, int, int]], resizing: Resizing
) -> None:
    spec = read_job_file(blocks("bash")[place].encode(), "job.rad", {}).spec("ada", 1000)
    assert [(role.name, role.count_min, role.count_max) for role in spec.roles] == roles
    assert spec.resizing is resizing


def test_the_settings_are_the_defaults() -> None:
    (text,) = blocks("toml")
    defaults = {name: field.default for name, field in Elastic.__dataclass_fields__.items()}
    found = re.findall(r"^(\w+) = ([\d.]+)", text, re.MULTILINE)
    assert len(found) == 2
    assert all(float(value) == defaults[name] for name, value in found)


def test_the_fields_of_the_documents_are_there(tmp_path: Path) -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    store = Store(str(tmp_path / "radrm.sqlite"))
    store.save(world.decisions, [submission_of(job)])
    document = whole(JobDocuments(world.scheduler, store).job(world.jobs[1], world.now).document)
    line = PAGE[PAGE.index("- JSON:") : PAGE.index("## For administrators")]
    names = re.findall(r"`(\w+)`", line)
    assert set(names) >= {"gpus", "gpus_min", "resizing", "tasks"}
    assert set(names) <= document.keys()


# ------------------------------------------------------------------ the program

MODEL = """
import torch
dataset = [(torch.randn(4), torch.randn(1)) for _ in range(1000)]
model, criterion = torch.nn.Linear(4, 1), torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""


def test_the_program_names_what_is_there() -> None:
    program = blocks("python")[0]
    exported = ast.parse((REPOSITORY / "radrm" / "elastic" / "__init__.py").read_text("utf-8"))
    names = {
        node.name for node in exported.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    assert set(re.findall(r"elastic\.(\w+)", program)) <= names
    documented = set(re.findall(r"\*\*`(\w+)\(", PAGE))
    assert documented >= {"ShardedDataset", "loader", "weight", "step", "save", "load"}
    assert documented <= names


@pytest.mark.nightly
def test_the_program_trains_saves_and_goes_on(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:  # an import would cost this worker 2 s
        pytest.skip("torch is not installed")
    program = blocks("python")[0]
    (tmp_path / "train.py").write_text(
        MODEL + program + "print('done', elastic.load() is not None)"
    )
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY), "RADRM_CPUS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "done True"
