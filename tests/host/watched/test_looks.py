"""Looks from outside: as whom they run, with which environment, what is believed of what they
say, and whose the folders are."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from radrm.errors import StoreError
from radrm.host.processes import errand
from radrm.host.storage.spool import Spool
from radrm.host.watched import looking
from radrm.host.watched import users as owners
from radrm.host.watched.login import User, defaults, log_in
from radrm.host.watched.start_look import Wanted
from radrm.host.watched.taking import Report
from radrm.host.watched.users import Owned, UserFolders
from tests.host.storage.envelopes import all_of
from tests.waiting import wait_until

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
        ("#!/bin/sh\necho no logins\nexit 1\n", "printed no environment"),
        ("#!/bin/sh\nexec sleep 1000\n", "longer than 0.3 s"),
        ("#!/bin/sh\nwhile :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done\n", "server's"),
        ("#!/nonexistent\n", "No such file"),
        ("#!/bin/sh\numask() { echo what; }\n" + ASKED, "printed no environment"),
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


def look_now(wanted: Wanted) -> Report:
    """The report of one whole look."""
    running = looking.Running(wanted)
    try:
        wait_until(running.ended, "the look")
    finally:
        report = running.close()
    return report


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
    assert report.error is not None and "Permission denied" in report.error
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
    said = report_bytes(refused=[["a\x1b[31m\n", "r" * 1500]] * 1000, error="x\ny")
    report = looking._checked(said)
    assert report is not None and report.error == "x\ufffdy"
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
        assert report.error is not None and not report.taken


def test_empty_groups_of_looks_of_a_killed_daemon_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errand.cgroups, "place", lambda name: str(tmp_path / name))
    for name in ("radrm-look-1", "radrm-look-2", "radrm-12"):
        (tmp_path / name).mkdir()
    (tmp_path / "radrm-look-2" / "cgroup.procs").write_text("7")
    looking.remove_leftover_groups()
    assert sorted(os.listdir(tmp_path)) == ["radrm-12", "radrm-look-2"]


# ------------------------------------------------------------------ the folders of users


@needs_root
def test_a_users_folder_is_made_by_root_and_given_away(tmp_path: Path) -> None:
    users = UserFolders(str(tmp_path / "users"))
    path = users.make(NOBODY, NOBODY)
    assert path == users.make(NOBODY, NOBODY) == users.path_of(NOBODY)
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
    with pytest.raises(StoreError, match="has 2 folders, and the limit is 2"):
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
