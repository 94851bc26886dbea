"""A home that is removed, moved or made anew under a daemon: nothing is taken or written there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from radrm.host.home import Home, HomeLost
from radrm.host.storage.arrivals import Arrivals
from radrm.host.storage.paths import Paths, prepare
from radrm.host.storage.spool import Spool
from tests.host.storage.envelopes import envelope
from tests.host.test_home import make_jobs, start


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(str(tmp_path / "state"), str(tmp_path / "run"))


def start_open(paths: Paths) -> Home:
    prepare(paths, False)
    return Home(paths, False)


def remove(path: str) -> None:
    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def make_anew(path: str) -> None:
    folder = os.path.isdir(path)
    remove(path)
    Path(path).mkdir() if folder else Path(path).write_bytes(b"")


def move(path: str) -> None:
    os.rename(path, f"{path}.old")


@pytest.mark.parametrize("happens", [remove, make_anew, move])
@pytest.mark.parametrize(
    "what", ["state", "spool", "store", "attempts", "checkpoints", "database", "lock"]
)
def test_a_home_that_is_replaced_is_noticed(
    paths: Paths, what: str, happens: Callable[[str], None]
) -> None:
    prepare(paths, False)
    Path(paths.lock).touch()
    home = Home(paths, False)
    home.hold(paths.lock)
    store = home.open_store()
    store.check_home()
    happens(getattr(paths, what))
    assert not home.is_here
    with pytest.raises(HomeLost, match="was removed or replaced"):
        store.check_home()
    store.close()


def test_a_home_that_is_a_link_may_not_lead_elsewhere(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir(0o700)
    (tmp_path / "home").symlink_to("one")
    store = (home := start_open(Paths(str(tmp_path / "home"), str(tmp_path / "run")))).open_store()
    store.check_home()
    os.symlink("two", tmp_path / "new")
    os.rename(tmp_path / "new", tmp_path / "home")
    assert not home.is_here
    with pytest.raises(HomeLost):
        store.check_home()
    store.close()


def test_what_is_saved_into_a_replaced_store_is_not_taken_for_saved(paths: Paths) -> None:
    store = start_open(paths).open_store()
    make_jobs(store, 1)
    move(paths.database)
    with pytest.raises(HomeLost):
        make_jobs(store, 1)
    store.close()


def test_a_replaced_home_keeps_its_own_numbers(paths: Paths) -> None:
    home = start_open(paths)
    home.open_store().close()
    move(paths.state)
    start(paths)
    marker = Path(paths.state, "radrm-home.json").read_bytes()
    with pytest.raises(HomeLost):
        home.cover(10**6, 10**6)
    assert Path(paths.state, "radrm-home.json").read_bytes() == marker


def test_nothing_is_taken_out_of_another_spool(paths: Paths) -> None:
    prepare(paths, False)
    arrivals = Arrivals(paths.spool, paths.refused)
    arrivals.notice([])
    arrivals.list_anew()
    make_anew(paths.spool)
    os.chmod(paths.spool, 0o700)
    sent = envelope()
    Spool(paths.spool).put([sent])
    for look in (arrivals.list_on, arrivals.list_anew):
        with pytest.raises(OSError, match="another folder"):
            look()
    with pytest.raises(OSError, match="another folder"):
        arrivals.notice([f"{sent.ticket}.job"])
    assert not arrivals.turns
    assert os.listdir(paths.spool) == [f"{sent.ticket}.job"]
