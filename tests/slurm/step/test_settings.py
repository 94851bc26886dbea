"""Where a step looks for the daemon of its node."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.errors import BadConfig
from radrm.host.storage import paths
from radrm.slurm.outer import daemon_home, daemon_paths
from tests.imports import imported_by

UID = 1000


def places(environ: dict[str, str], home: str = "") -> list[str]:
    return [each.state for each in daemon_paths(home, environ, UID)]


@pytest.mark.parametrize(
    ("text", "home"),
    [('[slurm]\nhome = "/srv/%n"\n', "/srv/%n"), ("[slurm]\n# home\n", ""), ("]", "")],
)
def test_the_home_is_read_where_it_is_named(tmp_path: Path, text: str, home: str) -> None:
    (tmp_path / "radrm.toml").write_text(text)
    assert daemon_home({"RADRM_CONFIG": str(tmp_path / "radrm.toml")}) == home
    with pytest.raises(BadConfig):
        daemon_home({"RADRM_CONFIG": str(tmp_path / "none.toml")})


def test_the_configuration_names_it_by_the_node() -> None:
    environ = {"SLURMD_NODENAME": "g1", "RADRM_HOME": "/other"}
    assert places(environ, "/srv/%n/radrm") == ["/srv/g1/radrm"]


def test_it_is_the_servers_whatever_the_job_has_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, unit = tmp_path / "server", tmp_path / "radrmd.service"
    monkeypatch.setattr(paths, "_SYSTEM_STATE", str(server))
    monkeypatch.setattr(paths, "SYSTEM_UNITS", (str(unit),))
    own = {"RADRM_HOME": "/other", "HOME": "/home/ada"}
    assert places(own) == ["/other"]
    unit.touch()
    assert places(own) == places({}) == [str(server)]


def test_the_first_question_to_the_daemon_imports_little() -> None:
    heavy = "msgspec typing socket subprocess tomllib radrm.core.records radrm.jobfile.radfile"
    assert not set(heavy.split()) & imported_by("import radrm.slurm.step.main")
