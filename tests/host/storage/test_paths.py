"""Where things lie, for whom, and which folders are refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from radrm.errors import StoreError
from radrm.host.storage.paths import Paths, client_paths, paths_for, prepare, system_mode
from tests.imports import imported_by

SYSTEM = Paths("/var/lib/radrm", "/run/radrm")

AT_HOME = Paths("/h/.local/state/radrm", "/h/.local/state/radrm/run")

PLACES = [
    # environment, uid, expected
    ({}, 0, SYSTEM),
    ({"HOME": "/root", "XDG_STATE_HOME": "/x"}, 0, SYSTEM),
    ({"RADRM_HOME": "/srv/r"}, 0, Paths("/srv/r", "/srv/r/run")),
    ({"RADRM_HOME": "/srv/r", "HOME": "/h"}, 7, Paths("/srv/r", "/srv/r/run")),
    ({"RADRM_HOME": "", "HOME": "/h"}, 7, AT_HOME),
    ({"HOME": "/h"}, 7, AT_HOME),
    ({"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r/7"}, 7, Paths("/s/radrm", "/r/7/radrm")),
    ({"HOME": "/h", "XDG_STATE_HOME": "relative"}, 7, AT_HOME),
    ({"HOME": "/h", "XDG_RUNTIME_DIR": "relative"}, 7, AT_HOME),
]


@pytest.mark.parametrize(("environ", "uid", "expected"), PLACES)
def test_places(environ: dict[str, str], uid: int, expected: Paths) -> None:
    assert paths_for(environ, uid) == expected


@pytest.mark.parametrize(
    ("environ", "uid", "expected"),
    [
        ({}, 0, True),
        ({"RADRM_HOME": "/x"}, 0, False),
        ({}, 5, False),
        ({"RADRM_HOME": ""}, 0, True),
    ],
)
def test_system_mode(environ: dict[str, str], uid: int, expected: bool) -> None:
    assert system_mode(environ, uid) is expected


def test_a_relative_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert paths_for({"RADRM_HOME": "mine"}, 1).state == str(tmp_path / "mine")


def test_a_client_looks_for_its_own_daemon_then_the_systems() -> None:
    own = paths_for({"HOME": "/h"}, 1000)
    assert client_paths({"HOME": "/h"}, 1000) == (own, SYSTEM)
    assert client_paths({"HOME": "/root"}, 0) == (SYSTEM,)


def test_a_client_told_where_looks_nowhere_else() -> None:
    environ = {"RADRM_HOME": "/srv/r", "HOME": "/h"}
    assert client_paths(environ, 1000) == (Paths("/srv/r", "/srv/r/run"),)
    assert client_paths(environ, 0) == (Paths("/srv/r", "/srv/r/run"),)


def test_a_user_without_a_home() -> None:
    nobody = 2**31 - 7
    with pytest.raises(StoreError, match=r"no home folder.*RADRM_HOME"):
        paths_for({}, nobody)
    assert client_paths({}, nobody) == (SYSTEM,)


# ------------------------------------------------------------------ prepare


def modes(paths: Paths) -> list[int]:
    folders = (paths.state, paths.spool, paths.store, paths.attempts, paths.run)
    return [stat.S_IMODE(Path(folder).stat().st_mode) for folder in folders]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize(
    ("system", "expected"),
    [
        (True, [0o711, 0o1777, 0o700, 0o711, 0o755]),
        (False, [0o700, 0o700, 0o700, 0o700, 0o700]),
    ],
)
def test_modes_whatever_the_umask(
    tmp_path: Path, umask: int, system: bool, expected: list[int]
) -> None:
    paths = Paths(str(tmp_path / "deep" / "state"), str(tmp_path / "other" / "run"))
    before = os.umask(umask)
    try:
        for _ in range(2):  # a second start changes nothing
            prepare(paths, system)
            assert modes(paths) == expected
    finally:
        os.umask(before)
    assert os.listdir(paths.run) == ["progress"], "what users fill is not in memory"
    for parent in (tmp_path / "deep", tmp_path / "other"):
        assert not parent.stat().st_mode & stat.S_IWOTH, "never open to all"


def test_a_mode_that_the_owner_gave_is_kept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o750)
    prepare(Paths(str(state), str(state / "run")), system=False)
    assert stat.S_IMODE(state.stat().st_mode) == 0o750


def test_a_folder_that_everybody_can_write_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)
    with pytest.raises(StoreError, match=r"can be written by everybody.*chmod o-w"):
        prepare(Paths(str(state), str(state / "run")), system=False)
    assert stat.S_IMODE(state.stat().st_mode) == 0o777


def test_somebody_elses_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: state.stat().st_uid + 1)
    with pytest.raises(StoreError, match=r"state belongs to user \d+.*RADRM_HOME"):
        prepare(Paths(str(state), str(state / "run")), system=False)


def test_ones_own_link_to_another_disk_is_fine(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "state").symlink_to(tmp_path / "disk")
    prepare(Paths(str(tmp_path / "state"), str(tmp_path / "run")), system=False)
    assert (tmp_path / "disk" / "spool").is_dir()


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StoreError, match="is not a folder"):
        prepare(Paths(str(tmp_path / "state"), str(tmp_path / "run")), system=False)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot make the folder .*: .+; make it yourself"):
        prepare(Paths(str(tmp_path / "file" / "state"), str(tmp_path / "run")), system=False)


def test_the_light_path_stays_light() -> None:
    heavy = {"pathlib", "typing", "dataclasses", "re", "inspect"}
    assert not heavy & imported_by("import radrm.host.storage.paths")


def test_the_names_of_new_folders_survive_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder's name stands in its parent: that is what has to be synced."""
    synced: set[str] = set()
    monkeypatch.setattr(os, "fsync", lambda fd: synced.add(os.readlink(f"/proc/self/fd/{fd}")))
    prepare(Paths(str(tmp_path / "a" / "state"), str(tmp_path / "a" / "run")), False)
    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "state")} <= synced
