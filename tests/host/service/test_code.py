"""Which code root would run, and what is refused before a unit runs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import radrm
from radrm.errors import Refused
from radrm.host.service.code import Code, code_of, fault_of, interpreter, script
from radrm.host.service.ownership import Ownership
from radrm.host.service.steps import code_refusal

ME = frozenset({0, os.getuid()})


def made(path: Path, first: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{first}\nimport sys\n")
    return str(path)


def test_everything_that_the_service_runs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By this very Python, as systemd starts it: without the variables of a shell."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    radrmd = f"{os.path.dirname(sys.executable)}/radrmd"
    code = code_of(radrmd)
    package = os.path.dirname(radrm.__file__)
    assert os.path.dirname(os.path.realpath(radrmd)) in code.folders
    assert package in code.folders
    import msgspec

    site = os.path.dirname(os.path.dirname(msgspec.__file__))
    assert site in code.folders
    assert os.path.dirname(os.__file__) in code.folders
    assert {radrmd, f"{package}/daemon/main.py", msgspec.__file__} <= set(code.files)
    assert any(file.endswith("/pyvenv.cfg") for file in code.files)
    assert any(folder.endswith(".zip") for folder in code.folders)  # the first that it searches
    assert not {"", str(tmp_path)} & set(code.folders)
    assert all(path.startswith("/") for path in (*code.folders, *code.files))


def test_an_editable_package_is_named(tmp_path: Path) -> None:
    """A rule of third parties may be one; pip's import hook names its folder."""
    plugin = tmp_path / "plugin"
    (tmp_path / "__editable___plugin_finder.py").write_text(
        f"MAPPING = {{'plugin': '{plugin}'}}\nNAMESPACES = {{'many': ['{plugin}s']}}\n"
    )
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c \'import sys; sys.path.append("{tmp_path}")\n'
        "import __editable___plugin_finder\n"
        'exec(sys.argv[2])\' "$@"\n'
    )
    python.chmod(0o755)
    radrmd = made(tmp_path / "radrmd", f"#!{python}")
    assert {str(plugin), f"{plugin}s"} <= set(code_of(radrmd).folders)


@pytest.mark.parametrize("wrong", ["bin/radrmd", "lib/site/new.pth", "lib/site", "bin"])
def test_one_writable_place_is_enough(tmp_path: Path, wrong: str) -> None:
    for name in ("bin/radrmd", "lib/site/new.pth"):
        made(tmp_path / name, "")
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755)
    code = Code((f"{tmp_path}/lib/site",), (f"{tmp_path}/bin/radrmd",))
    assert fault_of(code, Ownership(ME)) is None
    (tmp_path / wrong).chmod(0o775)
    found = fault_of(code, Ownership(ME))
    assert found.path == str(tmp_path / wrong)
    said = str(code_refusal(found, "."))
    assert said.startswith(f"{tmp_path / wrong} is writable by group ")
    assert "(mode 0775), and the service would run its code as root; " in said
    assert said.endswith(f"sudo chmod go-w {tmp_path / wrong}")


def test_code_of_another_user_needs_a_place_of_roots(tmp_path: Path) -> None:
    found = fault_of(Code((str(tmp_path),), ()), Ownership(frozenset({4_000_000})))
    assert found is not None
    said = str(code_refusal(found, "/home/anna/my radrm"))
    assert said.startswith("/ belongs to user 0, and the service would run its code as root; ")
    assert "sudo /opt/radrm/bin/pip install '/home/anna/my radrm' && " in said
    assert said.endswith("sudo /opt/radrm/bin/radrm service install")
    assert "\n" not in said


@pytest.mark.parametrize(
    "first",
    ["", "#!", "#!python3", "#!/bin/sh", "#!/usr/bin/env python3", "#!/a b/python", "\x7fELF"],
)
def test_a_script_that_names_no_python(tmp_path: Path, first: str) -> None:
    with pytest.raises(Refused, match="names no Python"):
        interpreter(made(tmp_path / "radrmd", first))


def test_the_script_lies_where_pip_put_it(tmp_path: Path) -> None:
    """Debian's pip puts scripts into /usr/local/bin, and Python is in /usr/bin."""
    radrmd = made(tmp_path / "local" / "radrmd", "#!/usr/bin/python3")
    assert script([str(tmp_path), f"{tmp_path}/local"]) == radrmd
    assert os.path.basename(script()) == "radrmd"


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read: No such file"):
        script([str(tmp_path)])


@pytest.mark.parametrize("folder", ["a b", "50%", "a$b", "a\nb", "a'b", "a\\b"])
def test_a_path_that_no_unit_can_hold(tmp_path: Path, folder: str) -> None:
    made(tmp_path / folder / "radrmd", "#!/usr/bin/python3")
    with pytest.raises(Refused, match="characters that a unit file cannot hold"):
        script([f"{tmp_path}/{folder}"])


def test_a_python_without_radrm(tmp_path: Path) -> None:
    radrmd = made(tmp_path / "radrmd", "#!/bin/false")
    with pytest.raises(Refused, match="/bin/false cannot import radrm"):
        code_of(radrmd)
