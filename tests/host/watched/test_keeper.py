"""Which watched folders are looked into, when, and how many at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from radrm.errors import StoreError
from radrm.host.watched import keeper as keepers
from radrm.host.watched.keeper import Keeper
from radrm.host.watched.start_look import Wanted
from radrm.host.watched.taking import Report
from radrm.host.watched.users import Owned, UserFolders
from tests.standins.mounted import mounted, requires_mounts

SCRIPT = "#!/bin/sh\n#RAD --gpus=0 --chdir=/\necho hi\n"
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")


class FakeLook:
    """A look under way, that ends when the test says so."""

    started: list[FakeLook] = []

    def __init__(self, wanted: Wanted) -> None:
        self.wanted, self.over, self.report = wanted, False, Report([], [])
        self.until = float("inf")
        self._fd = os.eventfd(0)
        FakeLook.started.append(self)

    def fileno(self) -> int:
        return self._fd

    def ended(self) -> bool:
        return self.over

    def close(self) -> Report:
        os.close(self._fd)
        return self.report

    def end(self, **report: Any) -> None:
        self.over, self.report = True, Report(**{"taken": [], "refused": [], **report})
        os.eventfd_write(self._fd, 1)


class Kept:
    """A keeper on folders, with a clock that the test moves and looks that it ends."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        FakeLook.started = []
        monkeypatch.setattr(keepers, "Running", FakeLook)
        self.root, self.now_s, self.told = root, 1000.0, []
        self.keeper = Keeper(
            self._folders, "/spool", lambda *words: self.told.append(words), drop=False,
            above=str(root), clock=lambda: self.now_s,
        )  # fmt: skip

    def _folders(self) -> list[Owned]:
        return [Owned(str(p), os.getuid(), os.getgid()) for p in sorted(self.root.iterdir())]

    def turn(self, seconds: float = 0.0) -> int:
        """How many looks it starts when so much time has gone by."""
        before = len(FakeLook.started)
        self.now_s += seconds
        for _ in range(3):
            os.eventfd_write(self.keeper._wake, 1)  # it would wait: nothing is to be done
            self.keeper.turn()
        return len(FakeLook.started) - before

    @property
    def last(self) -> FakeLook:
        return FakeLook.started[-1]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    (tmp_path / "users" / "1").mkdir(parents=True)
    made = Kept(tmp_path / "users", monkeypatch)
    yield made
    made.keeper.stop()
    made.keeper.run()


def file(kept: Kept, name: str = "a.rad", folder: str = "1") -> Path:
    path = kept.root / folder / name
    path.write_text(SCRIPT)
    return path


def test_nothing_runs_when_nothing_happens(kept: Kept) -> None:
    assert kept.turn() == 0
    assert kept.keeper._wait_s() == pytest.approx(keepers.RESCAN_S)
    (kept.root / "1" / "notes.txt").write_text("")
    assert kept.turn(100.0) == 0 and kept.keeper.idle()


def test_a_file_starts_a_look_at_once(kept: Kept) -> None:
    kept.turn()
    path = file(kept)
    assert kept.turn() == 1 and kept.last.wanted.moved == []
    assert kept.turn(10.0) == 0, "one look into a folder at a time"
    path.unlink()
    kept.last.end(taken=[["a.rad", "T", "a"]])
    assert kept.turn(100.0) == 0
    assert len(kept.told) == 1


def test_two_looks_into_a_folder_have_a_pause_between(kept: Kept) -> None:
    kept.turn()
    file(kept)
    kept.turn()
    kept.last.end(taken=[["a.rad", "T", "a"]])
    kept.turn()
    file(kept, "b.rad")
    assert (kept.turn(keepers.SHORTEST_PAUSE_S / 2), kept.turn(keepers.SHORTEST_PAUSE_S)) == (0, 1)


def test_what_was_renamed_into_place_is_told_to_the_look(kept: Kept, tmp_path: Path) -> None:
    kept.turn()
    for name in ("a", "b"):
        (tmp_path / name).write_text(SCRIPT)
        (tmp_path / name).rename(kept.root / "1" / f"{name}.rad")
    file(kept, "b.rad")  # and is written again
    file(kept, "c.rad")
    assert kept.turn() == 1 and kept.last.wanted.moved == ["a.rad"]


def test_what_a_look_gives_back_was_not_renamed_into_place(kept: Kept) -> None:
    kept.turn()
    path = file(kept)
    kept.turn()
    path.rename(path.with_name(".x"))
    path.with_name(".x").rename(path)
    kept.last.end(unsettled=1)
    kept.turn()
    assert kept.turn(1.0) == 1 and kept.last.wanted.moved == []


def test_names_that_were_moved_are_bounded(kept: Kept, tmp_path: Path) -> None:
    kept.turn()
    for number in range(keepers.MOST_MOVED + 50):
        (tmp_path / "x").write_text("")
        (tmp_path / "x").rename(kept.root / "1" / f"{number}.rad")
    assert kept.turn() == 1 and len(kept.last.wanted.moved) == keepers.MOST_MOVED


def looks_in(kept: Kept, seconds: float, **report: Any) -> int:
    """How many looks there are in so much time, if each ends at once with this report, while
    the folder changes all the time."""
    started = 0
    for number in range(int(seconds)):
        file(kept, f"{number % 7}.rad")
        started += kept.turn(1.0)
        if FakeLook.started and not kept.last.over:
            kept.last.end(**report)
            kept.turn()
    return started


@pytest.mark.parametrize(
    ("report", "most"),
    [({"error": "no"}, 13), ({"unsettled": 1}, 50), ({"refused": [["a", "b"]]}, 301)],
)
def test_a_folder_that_comes_to_nothing_waits_longer_each_time(
    kept: Kept, report: dict[str, Any], most: int
) -> None:
    assert 3 < looks_in(kept, 300, **report) <= most


def test_success_ends_the_waiting(kept: Kept) -> None:
    kept.turn()
    file(kept)
    for pause_s in (1.0, 2.0, 4.0, 8.0):
        assert kept.turn() == 0 or pause_s == 1.0
        kept.last.end(error="no")
        assert (kept.turn(), kept.turn(pause_s * 0.9), kept.turn(pause_s * 0.1)) == (0, 0, 1)
    kept.last.end(taken=[["a.rad", "T", "a"]], more=True)
    assert (kept.turn(), kept.turn(keepers.SHORTEST_PAUSE_S)) == (0, 1)


def test_many_folders_have_their_turn_a_few_at_a_time(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepers, "AT_ONCE", 2)
    for number in range(1, 8):
        (kept.root / str(number)).mkdir(exist_ok=True)
        file(kept, folder=str(number))
    assert kept.turn() == 2 and kept.turn(10.0) == 0
    for _ in range(4):
        for look in [look for look in FakeLook.started if not look.over]:
            look.end(more=True)  # there is more in each folder
        assert kept.turn() == kept.turn(5.0) + 2 == 2
    first = [look.wanted.folder for look in FakeLook.started[:7]]
    assert len(set(first)) == 7, "nobody has a second turn before everybody had one"


def test_a_new_folder_is_noticed_and_one_that_is_gone_forgotten(kept: Kept) -> None:
    kept.turn()
    (kept.root / "2").mkdir()
    file(kept, folder="2")
    assert kept.turn() == 1 and kept.last.wanted.folder.endswith("/2")
    shutil.rmtree(kept.root / "2")
    kept.last.end()
    assert kept.turn(keepers.RESCAN_S) == 0
    assert list(kept.keeper._kept) == [str(kept.root / "1")]


def test_what_inotify_missed_is_seen_within_a_minute(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.turn()
    with monkeypatch.context() as patch:
        patch.setattr(kept.keeper, "_read_events", lambda: None)
        file(kept)
        assert kept.turn(keepers.RESCAN_S / 2) == 0
        assert kept.turn(keepers.RESCAN_S / 2) == 1


def test_more_folders_than_watches(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        kept.keeper,
        "_inotify",
        SimpleNamespace(
            add_watch=no_room, read=lambda timeout: [], close=lambda: None, rm_watch=no_room
        ),
    )
    kept.keeper._above = None
    file(kept)
    assert kept.turn() == 1


def test_a_squatted_folder_of_folders_is_told_once(
    kept: Kept, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def squatted() -> list[Owned]:
        raise StoreError("users belongs to user 7; move it away")

    monkeypatch.setattr(kept.keeper, "_folders", squatted)
    for _ in range(5):
        kept.turn(keepers.RESCAN_S)
    assert [record.message for record in caplog.records] == [
        "users belongs to user 7; move it away"
    ]


@needs_root
@pytest.mark.parametrize("silent", [True, False])
def test_what_a_user_mounts_over_a_folder_is_entered_by_a_look_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    requires_mounts()
    users = UserFolders(str(tmp_path / "users"))
    covered, other = Path(users.make(NOBODY, NOBODY)), Path(users.make(1, 1))
    kept = Kept(tmp_path / "users", monkeypatch)
    kept.keeper._drop = True
    kept.keeper._folders = lambda: [Owned(str(covered), NOBODY, NOBODY), *users.all()]
    with mounted(covered, silent):
        assert [owned.path for owned in users.all()] == [str(other)]
        with pytest.raises(StoreError, match="a file system is mounted there"):
            users.make(NOBODY, NOBODY)
        (other / "a.rad").write_text(SCRIPT)
        assert kept.turn() == 2 and {Path(look.wanted.folder) for look in FakeLook.started} == {
            covered,
            other,
        }
        for look in FakeLook.started:
            look.end()
        assert kept.turn(100.0) == 0, "of what it cannot look into, no change is known"
    kept.keeper.stop()
    kept.keeper.run()
