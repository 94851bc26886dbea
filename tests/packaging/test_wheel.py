"""What users install: the wheel and the sources, built once, at night. On a push CI has `make
package-test`, which builds the wheel and runs it."""

from __future__ import annotations

import configparser
import importlib
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest

from radrm import __version__
from tests.paths import REPOSITORY
from tools.manual import pages

pytest.importorskip("hatchling", reason="pip install hatchling")
pytestmark = pytest.mark.nightly

NAME = f"radrm-{__version__}"
PACKAGES = ("radrm", "hydra_plugins")
_BESIDE_CODE = ("__pycache__", ".pyc", ".log", ".out", ".err")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "tools.manual"], cwd=REPOSITORY, check=True)
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl")


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return HeaderParser().parsestr(wheel.read(f"{NAME}.dist-info/METADATA").decode())


def test_the_wheel_has_all_files_of_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    found = {
        str(path.relative_to(REPOSITORY))
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = {name for name in wheel.namelist() if not name.startswith(f"{NAME}.")}
    guide = {f"radrm/guide/{page.name}" for page in (REPOSITORY / "docs").glob("*.md")}
    assert found | guide == names
    assert not [name for name in names if any(word in name for word in _BESIDE_CODE)]
    assert "radrm/py.typed" in names


def test_the_manual_pages_are_where_man_looks(wheel: zipfile.ZipFile) -> None:
    place = f"{NAME}.data/data/share/man/man1/"
    found = {name.removeprefix(place) for name in wheel.namelist() if name.startswith(place)}
    assert found == {page.name for page in pages()}


def test_the_commands_lead_to_functions(wheel: zipfile.ZipFile) -> None:
    parser = configparser.ConfigParser()
    parser.read_string(wheel.read(f"{NAME}.dist-info/entry_points.txt").decode())
    scripts = parser["console_scripts"]
    assert set(scripts) >= {"radrmd", "radrun", "radrm-simjob"}
    for target in scripts.values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_the_script_of_radrm_can_be_run(wheel: zipfile.ZipFile) -> None:
    script = wheel.getinfo(f"{NAME}.data/scripts/radrm")
    assert wheel.read(script).startswith(b"#!python\n"), "pip writes its Python there"
    assert script.external_attr >> 16 & 0o111


def test_the_licence_is_a_name_and_a_file(metadata: Message, wheel: zipfile.ZipFile) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    text = wheel.read(f"{NAME}.dist-info/licenses/LICENSE")
    assert text == (REPOSITORY / "LICENSE").read_bytes()


def test_the_extras_are_those_that_messages_name(metadata: Message) -> None:
    extras = set(metadata.get_all("Provides-Extra") or ())
    assert extras >= {"top", "web", "metrics", "mcp", "submitit", "hydra"}


def test_the_classifiers_exist(metadata: Message) -> None:
    known = pytest.importorskip("trove_classifiers", reason="pip install trove-classifiers")
    found = set(metadata.get_all("Classifier") or ())
    assert found <= known.classifiers
    assert "Typing :: Typed" in found


def test_the_sources_hold_what_builds_and_tests_them(dist: Path) -> None:
    with tarfile.open(dist / f"{NAME}.tar.gz") as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    assert names >= {"pyproject.toml", "LICENSE", "README.md", "Makefile", "radrm/__init__.py"}
    assert set(PACKAGES) <= {name.partition("/")[0] for name in names}
    assert names >= {
        "man/radrm.1",
        "conftest.py",
        "proofs/crash/points.txt",
        "packaging/debian/control",
    }
    assert {name.partition("/")[0] for name in names if "/" in name} <= {
        *(*PACKAGES, "man", "docs", "examples", "systemd", "packaging"),
        *("tests", "proofs", "tools", "benchmarks"),
    }
