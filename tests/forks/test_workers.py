"""Tests in forks: each runs once, and a worker that dies takes nothing with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.paths import REPOSITORY
from tests.waiting import wait_until

SHARING = """
import os, pathlib, pytest
@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    yield folder
    pathlib.Path(f"made-{__name__}-{os.getpid()}").touch(exist_ok=False)
@pytest.mark.parametrize("n", range(12))
def test_shared(made, n, tmp_path):
    (made / str(n)).touch()
    pathlib.Path(f"ran-{__name__}-{n}").touch(exist_ok=False)
"""
FAULTS = """
import os, signal, warnings, pytest
def test_before(): pass
def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
def test_fails(): print("said"); assert [1, 2] == [1, 3]
def test_skipped(): pytest.skip("not here")
@pytest.fixture
def spoiled(): yield; raise OSError("spoiled")
def test_spoiled(spoiled): warnings.warn("heed this")
def test_after(): pass
"""


@contextmanager
def running(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.forks.workers"]\n')
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:hydra_pytest", *words]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


def test_each_test_runs_once_and_one_that_kills_its_worker_has_failed(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text(SHARING)
    (tmp_path / "test_faults.py").write_text(FAULTS)
    with running(tmp_path, "-q", "-n3", "--junitxml=found.xml") as process:
        said, _ = process.communicate()
    assert process.returncode == 1
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(tmp_path / "found.xml").iter("testcase"):
        found.setdefault(case.attrib["name"], []).extend(each.tag for each in case)
    assert len([name for name in found if "shared" in name]) == 12
    assert {name: tags for name, tags in found.items() if tags or "shared" not in name} == {
        "test_before": [],
        "test_dies": ["failure"],
        "test_fails": ["failure"],
        "test_skipped": ["skipped"],
        "test_spoiled": ["error"],
        "test_after": [],
    }
    assert all(each in said for each in ("ended with -9", "said", "heed this", "1 skipped"))
    assert len(list(tmp_path.glob("ran-*"))) == 36
    # A module's tests stay with one worker, unless another one has nothing left to do.
    assert 3 <= len(list(tmp_path.glob("made-*"))) <= 9


def test_it_stops_where_it_shall(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(90))\ndef test_a(n): assert n != 3\n"
    )
    with running(tmp_path, "-q", "-n2", "-x") as process:
        said, _ = process.communicate()
    assert process.returncode == 1 and "1 failed" in said and "[100%]" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_parent_that_is_interrupted_or_dies_takes_its_workers_along(
    tmp_path: Path, number: int
) -> None:
    (tmp_path / "test_a.py").write_text(
        "import os, pathlib, pytest, time\n"
        "@pytest.fixture\n"
        "def made():\n"
        "    me = pathlib.Path(f'worker-{os.getpid()}')\n"
        "    me.touch()\n    yield\n    me.unlink()\n"
        "@pytest.mark.parametrize('n', range(50))\n"
        "def test_a(made, n):\n"
        "    while not os.path.exists('go'): time.sleep(0.02)\n"
    )
    with running(tmp_path, "-q", "-n2") as process:
        wait_until(lambda: len(list(tmp_path.glob("worker-*"))) == 2, "both workers")
        workers = [int(each.name[7:]) for each in tmp_path.glob("worker-*")]
        process.send_signal(number)
        (tmp_path / "go").touch()
        process.wait()
    places = [Path(f"/proc/{pid}") for pid in workers]
    wait_until(lambda: not any(each.exists() for each in places), "the workers' end")
    assert not list(tmp_path.glob("worker-*")), "what a fixture has made is removed"
