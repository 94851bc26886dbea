"""The server runs without any of its wings, and a wing takes no private name of the server's.

Each wing is removed from a copy of the package, whose metadata still names it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from radrm.cli.listing import COMMANDS
from radrm.wings import GROUP, wings
from tests.paths import REPOSITORY
from tests.test_layers import code_of_radrm

WINGS = sorted(point.name for point in distribution("radrm").entry_points.select(group=GROUP))


def is_in(module: str, wing: str) -> bool:
    return f"{module}.".startswith(f"radrm.{wing}.")


def test_each_is_a_package_and_adds_something() -> None:
    assert sorted(wings()) == WINGS, "read as importlib.metadata reads it"
    for name, wing in wings().items():
        assert f"radrm.{name}" in code_of_radrm().modules
        assert any((wing.commands, wing.planners, wing.checks, wing.targets, wing.runners)), name
        assert not set(wing.commands) & set(COMMANDS), "a wing hides no command of the server"


@pytest.mark.parametrize("wing", WINGS)
def test_neither_the_server_nor_another_wing_imports_it(wing: str) -> None:
    found = {
        (name, target)
        for name, targets in code_of_radrm().imports.items()
        for target in targets
        if is_in(target, wing) and not is_in(name, wing)
    }
    assert not found


@pytest.mark.parametrize("wing", WINGS)
def test_it_takes_no_private_name_of_the_server(wing: str) -> None:
    taken = {
        (module.name, name)
        for module in code_of_radrm().modules.values()
        if is_in(module.name, wing)
        for source, name in code_of_radrm().names_imported(module)
        if not is_in(source, wing)
        and any(word.startswith("_") for word in (name, *source.split(".")))
    }
    assert not {each for each in taken if each[1] != "__version__"}


RULES_ONLY = ("radrm.published", "radrm.elastic.planner", "radrm.elastic.elasticity")
"""Where planners of wings are. They use what a planner of a third party can use."""


def test_planners_of_wings_import_the_interface_for_rules_only() -> None:
    taken = {
        (name, target)
        for name, targets in code_of_radrm().imports.items()
        for target in targets
        if f"{name}.".startswith(tuple(f"{each}." for each in RULES_ONLY))
        and target not in ("radrm.rules", "radrm.wings", "radrm.extras")
        and not is_in(target, name.split(".")[1])
    }
    assert not taken


ONE_AT_A_TIME = [pytest.param([each], marks=pytest.mark.nightly, id=each) for each in WINGS]


@pytest.mark.parametrize("wings_removed", [*ONE_AT_A_TIME, pytest.param(WINGS, id="all")])
def test_the_server_runs_without(wings_removed: list[str], tmp_path: Path) -> None:
    copy = tmp_path / "radrm"
    shutil.copytree(REPOSITORY / "radrm", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for wing in wings_removed:
        shutil.rmtree(copy / wing)
    lost = {name for wing in wings_removed for name in wings()[wing].commands}

    def radrm(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "radrm.cli.main", *words],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "RADRM_HOME": str(tmp_path / "home")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    shown = radrm("help", "--all").splitlines()
    listed = {line.split()[0] for line in shown if line.startswith("  ") and line.split()}
    assert set(COMMANDS) <= listed
    assert not lost & listed
    daemon = subprocess.Popen(
        [sys.executable, "-m", "radrm.cli.main", "daemon", "--gpus", "sim:1xA100-40GB"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "RADRM_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
    )
    try:
        assert daemon.stderr.readline()
        radrm("submit", "--wait", "--gpus=0", "--", "true")
        (job,) = json.loads(radrm("status", "--all", "--json"))
        assert job["state"] == "COMPLETED"
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)
