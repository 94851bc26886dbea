"""Looks from outside: as whom they run, when, how many, and what is believed of what they say."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from radrm.errors import StoreError
from radrm.host.spool import Spool
from radrm.host.watched import keeper as keepers
from radrm.host.watched import looking
from radrm.host.watched import users as owners
from radrm.host.watched.keeper import Keeper
from radrm.host.watched.login import User, defaults, log_in
from radrm.host.watched.looking import look_now
from radrm.host.watched.start_look import Wanted
from radrm.host.watched.taking import Report
from radrm.host.watched.users import Owned, UserFolders
from tests.daemon.harness import wait_until
from tests.host.test_spool import all_of

SCRIPT = "#!/bin/sh\n#RAD --gpus=0 --chdir=/\necho hi\n"
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")


# ------------------------------------------------------------------ the login


@pytest.fixture
def user(tmp_path: Path) -> Callable[[str], User]:
    """A user whose shell is this script."""

    def made(script: str) -> User:
        shell = tmp_path / "shell"
        shell.write_text(script)
        shell.chmod(0o755)
        return User("ann", os.getuid(), str(tmp_path), str(shell))

    return made


ASKED = 'eval "$2"\n'


def test_a_login_shell_gives_its_environment_and_umask(user: Callable[[str], User]) -> None:
    talks = "#!/bin/sh\necho welcome; export A='x\ny' B=; umask 007\n"
    login = log_in(user(talks + ASKED))
    assert (login.environment["A"], login.environment["B"], login.umask) == ("x\ny", "", 0o007)
    assert login.environment["USER"] == login.environment["LOGNAME"] == "ann"
    assert login.note is None
    assert not {"RADRM_TOKEN", "SHLVL", "_", "PWD"} & login.environment.keys()


def test_what_a_profile_leaves_behind_holds_nothing_up(
    user: Callable[[str], User], tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    login = log_in(user(f"#!/bin/sh\nsleep 1000 & echo $! > {pid}\nexport A=1\n{ASKED}"))
    assert login.environment["A"] == "1"
    wait_until(lambda: not _runs(int(pid.read_text())), "its end")


def test_a_login_has_the_servers_umask_not_the_looks(user: Callable[[str], User]) -> None:
    before = os.umask(0o777)
    try:
        login = log_in(user("#!/bin/sh\n" + ASKED))
    finally:
        os.umask(before)
    assert login.note is None and login.umask == defaults(user("")).umask


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("script", "note"),
    [
        ("#!/bin/sh\necho no logins\nexit 1\n", "told no environment"),
        ("#!/bin/sh\nexec sleep 1000\n", "longer than 0.3 s"),
        ("#!/bin/sh\nwhile :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done\n", "server's"),
        ("#!/nonexistent\n", "No such file"),
        ("#!/bin/sh\numask() { echo what; }\n" + ASKED, "told no environment"),
    ],
)
def test_without_an_answer_there_is_what_every_login_has(
    user: Callable[[str], User], script: str, note: str
) -> None:
    who = user(script)
    login = log_in(who, limit_s=0.3)
    assert login.note is not None and note in login.note
    assert login.environment == defaults(who).environment


def test_the_servers_settings_are_those_of_every_login(tmp_path: Path) -> None:
    (tmp_path / "login.defs").write_text("# UMASK 0\nUMASK\t\t027\nENV_PATH PATH=/a:/b\nODD\n")
    (tmp_path / "environment").write_text('LANG="C.UTF-8"\nexport  EDITOR=vi\n# A=1\nno setting\n')
    login = defaults(User("ann", 1000, "/home/ann", "/bin/sh"), str(tmp_path))
    assert login.umask == 0o027 and login.environment["PATH"].startswith("/a:/b")
    assert (login.environment["LANG"], login.environment["EDITOR"]) == ("C.UTF-8", "vi")
    assert login.environment["HOME"] == "/home/ann" and "A" not in login.environment


# ------------------------------------------------------------------ a look's process


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A place that other users can reach."""
    place = Path(tempfile.mkdtemp(prefix="radrm-test-"))
    place.chmod(0o755)
    (place / "spool").mkdir()
    (place / "spool").chmod(0o1777)
    yield place
    shutil.rmtree(place)


@needs_root
def test_a_look_has_its_users_rights_and_no_more(open_place: Path) -> None:
    folder = open_place / str(NOBODY)
    folder.mkdir(mode=0o700)
    (folder / "mine.rad").write_text(SCRIPT)
    (folder / "roots.rad").write_text(SCRIPT)
    (folder / "link.rad").symlink_to("/etc/shadow")
    for path in (folder, folder / "mine.rad"):
        os.chown(path, NOBODY, NOBODY)
    moved = sorted(os.listdir(folder))
    report = look_now(Wanted(str(folder), str(open_place / "spool"), NOBODY, NOBODY, moved))
    assert [name for name, *_ in report.taken] == ["mine.rad"], report
    assert [name for name, _ in report.refused] == ["link.rad", "roots.rad"]
    (arrival,) = all_of(Spool(str(open_place / "spool")))
    assert (arrival.uid, arrival.gid, arrival.wrong) == (NOBODY, NOBODY, None)
    assert arrival.envelope is not None
    assert arrival.envelope.environment["USER"] == arrival.envelope.environment["LOGNAME"]
    assert arrival.envelope.environment["HOME"] != os.environ.get("HOME")
    assert {os.lstat(path).st_uid for path in folder.rglob("*.txt")} == {NOBODY}


@needs_root
def test_a_folder_of_somebody_else_is_closed_to_a_look(open_place: Path) -> None:
    folder = open_place / "roots"
    folder.mkdir(mode=0o700)
    (folder / "a.rad").write_text(SCRIPT)
    report = look_now(Wanted(str(folder), str(open_place / "spool"), NOBODY, NOBODY))
    assert report.trouble is not None and "Permission denied" in report.trouble
    assert os.listdir(folder) == ["a.rad"] and not os.listdir(open_place / "spool")


def report_bytes(**changes: Any) -> bytes:
    return json.dumps({"taken": [], "refused": [], **changes}).encode()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 100_000,
        report_bytes(taken=[["a"]]),
        report_bytes(refused="x"),
        report_bytes(more="yes"),
        report_bytes(notes=[1]),
        report_bytes(notes=["x" * looking.MAX_REPORT]),
    ],
)
def test_what_is_no_report_is_not_believed(said: bytes) -> None:
    assert looking._checked(said) is None


def test_a_report_is_made_plain_and_short() -> None:
    said = report_bytes(refused=[["a\x1b[31m\n", "r" * 1500]] * 1000, trouble="x\ny")
    report = looking._checked(said)
    assert report is not None and report.trouble == "x\ufffdy"
    assert len(report.refused) < 1000
    assert report.refused[0][0] == "a\ufffd[31m\ufffd" and len(report.refused[0][1]) <= 1000


def test_a_look_that_floods_or_hangs_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (
        ("flood", "while True: print('x' * 99999)"),
        ("hang", "import time\ntime.sleep(1000)"),
    ):
        program = tmp_path / f"{name}.py"
        program.write_text(text)
        monkeypatch.setattr(looking.start_look, "__file__", str(program))
        monkeypatch.setattr(looking, "LIMIT_S", 0.3)
        monkeypatch.setattr(looking, "_GRACE_S", 0.0)
        report = look_now(Wanted(str(tmp_path), str(tmp_path)))
        assert report.trouble is not None and not report.taken


# ------------------------------------------------------------------ the folders of users


@needs_root
def test_a_users_folder_is_made_by_root_and_given_away(tmp_path: Path) -> None:
    users = UserFolders(str(tmp_path / "users"))
    path = users.make(NOBODY, NOBODY)
    assert path == users.make(NOBODY, NOBODY) == users.of(NOBODY)
    found = os.stat(path)
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (NOBODY, NOBODY, 0o700)
    assert os.stat(users.path).st_mode & 0o7777 == 0o711
    assert users.all() == [Owned(path, NOBODY, NOBODY)]


@needs_root
def test_numbers_without_a_name_keep_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "MOST_USERS", 4)
    users = UserFolders(str(tmp_path / "users"))
    for uid in (100_001, 100_002):
        users.make(uid, uid, known=False)
    with pytest.raises(StoreError, match="has 2 folders, and 2 can be served"):
        users.make(100_003, 100_003, known=False)
    users.make(100_001, 100_001, known=False)
    users.make(NOBODY, NOBODY)
    assert len(users.all()) == 3


@needs_root
def test_a_folder_under_anothers_number_is_nobodys(tmp_path: Path) -> None:
    users = UserFolders(str(tmp_path / "users"))
    users.make(NOBODY, NOBODY)
    os.chown(tmp_path / "users" / str(NOBODY), 4242, 4242)
    (tmp_path / "users" / "7").symlink_to(tmp_path)
    (tmp_path / "users" / "name").mkdir()
    assert users.all() == []
    for uid in (NOBODY, 7):
        with pytest.raises(StoreError, match="ask the administrator to move it away"):
            users.make(uid, uid)


@needs_root
@pytest.mark.parametrize("how", ["squatted", "link", "file", "open"])
def test_users_that_root_has_not_made_is_left_alone(tmp_path: Path, how: str) -> None:
    path = tmp_path / "users"
    if how == "link":
        path.symlink_to(tmp_path)
    elif how == "file":
        path.write_text("")
    else:
        path.mkdir()
        os.chown(path, NOBODY if how == "squatted" else 0, 0)
        path.chmod(0o755 if how == "squatted" else 0o777)
    before = os.lstat(path)
    users = UserFolders(str(path))
    users.prepare()
    for act in (users.all, lambda: users.make(7, 7)):
        with pytest.raises(StoreError, match="move it away"):
            act()
    after = os.lstat(path)
    assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)
    path.rename(tmp_path / "away")
    assert users.all() == [] and os.stat(path).st_uid == 0, "it is made anew"


# ------------------------------------------------------------------ the keeper


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
    assert kept.keeper._patience() == pytest.approx(keepers.RESCAN_S)
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
    [({"trouble": "no"}, 13), ({"unsettled": 1}, 50), ({"refused": [["a", "b"]]}, 301)],
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
        kept.last.end(trouble="no")
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
        patch.setattr(kept.keeper, "_notice", lambda: None)
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
