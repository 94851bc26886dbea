"""Watched folders: a complete file becomes what `radrm submit` would make of it, once, and nothing
else does."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from radrm.daemon import watching as watchings
from radrm.daemon.watching import Report, Watching
from radrm.errors import StoreError, plain
from radrm.host.storage.arrivals import Arrivals
from radrm.host.storage.paths import Paths
from radrm.host.storage.spool import Envelope, Spool
from radrm.host.storage.tickets import is_ticket, new_ticket
from radrm.host.watched import folders, look
from radrm.host.watched.folders import (
    Owned,
    UserFolders,
    claim_of,
    claimed,
    is_job_file,
    reserved,
)
from radrm.host.watched.login import Login, User, log_in
from radrm.host.watched.look import Look
from radrm.jobfile.radfile import MAX_BYTES
from tests.host.storage.envelopes import all_of
from tests.standins.mounted import mounted, requires_mounts
from tests.waiting import wait_until

SCRIPT = "#!/bin/sh\n#RAD --gpus=0\necho hi\n"
TICKET = "01M80TA4D4JDCEV010A4H87B41"
NOBODY = 65534
LOGIN = Login({"PATH": "/bin", "GREETING": "hello"}, 0o027)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
no_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may open any file")


class Place:
    """A watched folder, a home and a spool; and the jobs that a daemon has made of envelopes."""

    def __init__(self, root: Path) -> None:
        self.folder, self.home, self.spool = root / "jobs", root / "home", root / "spool"
        for made in (self.folder, self.home, self.spool):
            made.mkdir(mode=0o700, parents=True)
        self.jobs: dict[str, Envelope] = {}

    def put(self, name: str, text: str = SCRIPT) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def look(
        self,
        pause: Callable[[float], None] = lambda _: None,
        home: str | None = None,
        login: Login = LOGIN,
    ) -> Report:
        user = User("ann", home or str(self.home), "/bin/sh")
        with contextlib.ExitStack() as opened:
            found = Look(
                str(self.folder), Spool(str(self.spool)), user, opened, {"EXTRA": "1"}, pause,
                lambda _: login,
            )  # fmt: skip
            return Report(**found.run())

    def ingest(self) -> None:
        """As the daemon does: a ticket that is known makes no second job."""
        for arrival in all_of(Spool(str(self.spool))):
            assert arrival.envelope is not None, arrival.wrong
            self.jobs.setdefault(arrival.envelope.ticket, arrival.envelope)
            os.unlink(self.spool / arrival.name)

    def names(self, below: str = "") -> list[str]:
        found = sorted(os.listdir(self.folder / below))
        return [name for name in found if name not in ("done", "refused")]

    def reasons(self) -> dict[str, str]:
        """Each refused file, without its ticket, and its reason."""
        files = [name for name in self.names("refused") if not name.endswith(".txt")]
        reasons = [name for name in self.names("refused") if name.endswith(".txt")]
        assert reasons == [f"{name}.txt" for name in files]
        return {name[27:]: (self.folder / "refused" / f"{name}.txt").read_text() for name in files}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


# ------------------------------------------------------------------ names


@given(st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=250))
def test_a_claim_holds_ticket_and_name_and_fits_a_file_system(stem: str) -> None:
    assume(not stem.startswith("."))
    ticket = new_ticket()
    claim = claim_of(ticket, f"{stem}.rad")
    assert len(os.fsencode(claim)) + len(".txt") <= 255 and "/" not in claim
    found = claimed(claim)
    assert found[0] == ticket and not is_job_file(claim)
    if plain(stem) == stem and len(stem.encode()) <= 180:
        assert found[1] == f"{stem}.rad"


@pytest.mark.parametrize(
    ("name", "in_a_users", "in_the_systems"),
    [
        ("train.rad", True, False),
        ("done", True, False),
        ("refused", True, False),
        ("users", False, True),
        (f".{TICKET}.train.rad", True, False),
        (f".{TICKET}", False, False),
        (f"{TICKET}.job", False, False),
        (".train.rad", False, False),
    ],
)
def test_which_names_of_a_spool_are_no_envelopes_business(
    name: str, in_a_users: bool, in_the_systems: bool
) -> None:
    assert (reserved(name, False), reserved(name, True)) == (in_a_users, in_the_systems)


def test_the_daemon_does_not_call_them_foreign(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.rad").write_text(SCRIPT)
    (tmp_path / "done").mkdir()
    arrivals = Arrivals(str(tmp_path), "/nowhere", lambda name: reserved(name, False))
    arrivals.list_anew()
    assert not arrivals.list_on() and len(arrivals.turns) == 0 and not caplog.records
    (tmp_path / "notes.txt").touch()
    arrivals.list_anew()
    assert not arrivals.list_on()
    assert "1 name(s) in the spool are not radrm's" in caplog.text


# ------------------------------------------------------------------ what becomes a job


def test_a_file_becomes_what_submit_would_make_of_it_at_home_after_a_login(place: Place) -> None:
    (place.home / "net.model").write_text("Total params: 12\n")
    place.put("train.rad", SCRIPT.replace("--gpus=0", "--gpus=0 --model-summary=net.model"))
    for name in ("notes.txt", ".hidden.rad", "train.rad.part", "rad"):
        place.put(name)
    report = place.look()
    place.ingest()
    ((ticket, made),) = place.jobs.items()
    assert report.taken == [("train.rad", ticket, "train")] and not report.refused
    assert made.script.endswith("echo hi\n")
    assert (made.cwd, made.umask) == (str(place.home), 0o027)
    assert made.environment == {**LOGIN.environment, "EXTRA": "1"}
    assert (made.file, made.options) == (str(place.folder / "train.rad"), {})
    assert made.summary == "Total params: 12\n"
    assert len(place.names()) == 4, "other names are left alone"
    assert place.names("done") == [f"{ticket}.train.rad"]
    assert stat.S_IMODE(os.stat(place.folder / "done").st_mode) == 0o700


def test_files_are_submitted_in_the_order_of_their_names(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look takes a bounded number, and says that there is more."""
    monkeypatch.setattr(look, "MOST_FILES", 2)
    for name in ("c.rad", "a.rad", "b.rad"):
        place.put(name)
    assert [place.look().again for _ in range(3)] == [True, False, False]
    place.ingest()
    taken = [os.path.basename(e.file or "") for _, e in sorted(place.jobs.items())]
    assert taken == ["a.rad", "b.rad", "c.rad"]


def test_a_note_on_a_file_is_told(place: Place) -> None:
    place.put("a.rad", SCRIPT + "\r\n")
    place.put("b.rad", SCRIPT.replace("--gpus=0", "--gpus=0 --model-summary=none.model"))
    notes = place.look().notes
    assert any("CRLF" in note for note in notes) and any("none.model" in note for note in notes)


def test_a_file_that_changes_is_left_until_it_does_not(place: Place) -> None:
    """Another file of its name, too."""
    path = place.put("a.rad", "#!/bin/sh\n")
    replaced = place.put("b.rad")
    place.put("c.rad")

    def write_on(_: float) -> None:
        with path.open("a") as file:
            file.write("echo more\n")
        os.replace(place.put("new"), replaced)

    report = place.look(write_on)
    assert report.again and [name for name, *_ in report.taken] == ["c.rad"]
    assert place.names() == ["a.rad", "b.rad"], "who writes it finds it under its name"
    assert len(place.look().taken) == 2 and place.names() == []


def test_a_file_that_changes_while_it_is_read_waits_under_its_ticket(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put("a.rad")
    check = look._check

    def write_after(found: os.stat_result) -> None:
        check(found)
        (claim,) = (name for name in os.listdir(place.folder) if claimed(name))
        with (place.folder / claim).open("a") as file:
            file.write("echo more\n")

    with monkeypatch.context() as patch:
        patch.setattr(look, "_check", write_after)
        assert place.look().again
    place.ingest()
    assert not place.jobs
    place.look()
    place.ingest()
    assert ["echo more" in (e.script or "") for e in place.jobs.values()] == [True]


# ------------------------------------------------------------------ what is refused


def _hard_link(place: Place) -> None:
    (place.home / "secret").write_text("echo secret")
    os.link(place.home / "secret", place.folder / "x.rad")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda p: os.mkfifo(p.folder / "x.rad"), "it is a FIFO"),
        (lambda p: (p.folder / "x.rad").mkdir(), "it is a folder"),
        (lambda p: (p.folder / "x.rad").symlink_to("/etc/hostname"), "it is a symbolic link"),
        (_hard_link, "it has 2 names"),
        (
            lambda p: os.truncate(p.put("x.rad"), 1 << 40),
            f"it has {1 << 40} bytes, and a job file has {MAX_BYTES} at most",
        ),
        pytest.param(
            lambda p: os.chown(p.put("x.rad"), NOBODY, NOBODY),
            "it belongs to user 65534, not to user 0",
            marks=needs_root,
        ),
        pytest.param(lambda p: p.put("x.rad").chmod(0), "it cannot be opened", marks=no_root),
        (lambda p: p.put("x.rad", ""), "x.rad: empty"),
        (lambda p: p.put("x.rad", "#RAD --gpu=1\ntrue"), "did you mean --gpus?"),
        (
            lambda p: p.put("x.rad", "#RAD --after=3 --after=prep:any\ntrue"),
            "--after=prep: a file that is copied in can only name ids and tickets; write the id",
        ),
        (
            lambda p: p.put("x.rad", SCRIPT.replace("--gpus=0", "--gpus=0 --snapshot")),
            "--snapshot is for the command line",
        ),
    ],
)
def test_what_is_no_job_is_refused_with_one_reason(
    place: Place, make: Callable[[Place], object], reason: str
) -> None:
    make(place)
    place.put("good.rad")
    report = place.look()
    place.ingest()
    assert [name for name, *_ in report.taken] == ["good.rad"] and len(place.jobs) == 1
    assert [name for name, _ in report.refused] == ["x.rad"]
    (told,) = place.reasons().values()
    assert reason in told and told.count("\n") == 1
    assert place.names() == [] and place.look() == Report()


@pytest.mark.parametrize(
    "name", [b"a\nb.rad", b"bad\xff.rad", b"\x1b[31m.rad", b"\n" * 251 + b".rad"]
)
def test_a_name_that_cannot_be_shown_is_refused(place: Place, name: bytes) -> None:
    with open(os.path.join(os.fsencode(place.folder), name), "w") as file:
        file.write(SCRIPT)
    assert place.look().refused
    ((kept, told),) = place.reasons().items()
    assert kept.isprintable() and "cannot be shown" in told and not place.names()
    place.ingest()
    assert not place.jobs


def test_a_home_that_is_not_there_can_be_done_without(place: Place) -> None:
    place.put("a.rad")
    place.put("b.rad", SCRIPT.replace("--gpus=0", "--gpus=0 --chdir=/"))
    place.look(home="/nonexistent")
    place.ingest()
    ((name, reason),) = place.reasons().items()
    assert name == "a.rad" and "/nonexistent" in reason and "--chdir" in reason
    assert [e.cwd for e in place.jobs.values()] == ["/"]


def test_what_no_daemon_would_take_and_a_defect_are_the_files_affair(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put("a.rad")
    place.look(login=Login({"A": "x" * (9 << 20)}, 0o022))
    assert "larger than 8 MiB" in place.reasons()["a.rad"]

    def breaks(*_: object) -> None:
        raise KeyError("script")

    monkeypatch.setattr(look, "read_job_file", breaks)
    place.put("b.rad")
    place.look()
    assert "KeyError" in place.reasons()["b.rad"]


# ------------------------------------------------------------------ the folder


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda p: p.folder.chmod(0o770), "others may write"),
        (lambda p: (p.folder / "done").symlink_to(p.home), "done is no folder"),
        (lambda p: (p.folder / "refused").symlink_to(p.home), "refused is no folder"),
        (lambda p: (p.folder / "done").write_text(""), "done is no folder"),
        (lambda p: (p.folder / "done").mkdir() or (p.folder / "done").chmod(0o777), "others may"),
        (
            lambda p: p.folder.rename(p.home / "real") and p.folder.symlink_to(p.home / "real"),
            "jobs is no folder",
        ),
        pytest.param(
            lambda p: os.chown(p.folder, NOBODY, NOBODY), "belongs to user 65534", marks=needs_root
        ),
    ],
)
def test_a_folder_that_is_not_ones_own_is_not_looked_into(
    place: Place, spoil: Callable[[Place], object], words: str
) -> None:
    place.put("a.rad")
    spoil(place)
    with pytest.raises(StoreError, match=words):
        place.look()
    assert (place.folder / "a.rad").exists()
    assert not [path for path in place.home.iterdir() if path.name != "real"]


def test_a_folder_that_is_replaced_while_it_is_looked_into_stays_the_one(place: Place) -> None:
    place.put("a.rad")
    elsewhere = place.home / "victim"
    elsewhere.mkdir()
    (elsewhere / "a.rad").write_text("echo another's")

    def replace(_: float) -> None:
        place.folder.rename(place.home / "moved")
        place.folder.symlink_to(elsewhere)

    assert place.look(replace).taken
    assert os.listdir(elsewhere) == ["a.rad"]
    assert len(os.listdir(place.home / "moved" / "done")) == 1


def test_two_looks_do_not_meet(place: Place) -> None:
    place.put("a.rad")
    second: list[Report] = []
    first = place.look(lambda _: second.append(place.look()))
    assert second == [Report(again=True)] and len(first.taken) == 1


# ------------------------------------------------------------------ trouble, and kills


@pytest.mark.parametrize("where", ["put", "done", "refused"])
def test_on_a_full_disk_files_wait_and_none_is_lost(
    place: Place, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    place.put("a.rad", "" if where == "refused" else SCRIPT)
    rename, full = os.rename, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def no_room(*_: object) -> None:
        raise StoreError("cannot write to the spool: No space left")

    def fails(source: str, target: str, **named: Any) -> None:
        if named and named["src_dir_fd"] != named["dst_dir_fd"]:
            raise full
        rename(source, target, **named)

    with monkeypatch.context() as patch:
        if where == "put":
            patch.setattr(Spool, "put", no_room)
        else:
            patch.setattr(os, "rename", fails)
        report = place.look()
        assert report.error and "space" in report.error and not report.refused
        place.ingest()
    place.look()
    place.ingest()
    assert len(place.jobs) == (0 if where == "refused" else 1) and place.names() == []
    assert len(place.reasons()) == (1 if where == "refused" else 0)


def test_a_file_that_cannot_be_moved_keeps_no_other_waiting(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that not even its owner may move out is out of the way under another name."""
    rename = os.rename

    def denied(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        if source == "a.rad" or (src_dir_fd != dst_dir_fd and "x.rad" in source):
            raise PermissionError(errno.EPERM, "Operation not permitted")
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    place.put("a.rad")
    place.put("b.rad")
    (place.folder / "x.rad").mkdir()
    monkeypatch.setattr(os, "rename", denied)
    report = place.look()
    assert [name for name, *_ in report.taken] == ["b.rad"] and len(report.refused) == 1
    assert any("a.rad" in note for note in report.notes)
    claim, left = place.names()
    assert claim.endswith(".x.rad.refused") and left == "a.rad"


class Killed(BaseException):
    """As SIGKILL would: nobody catches it."""


CALLS = ("rename", "open", "fsync", "unlink", "mkdir", "stat", "fstat", "scandir", "write")


def killed_at(step: int, after: bool, patch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Ends the process before or after its system call number `step`. Tells how many there were."""
    made, opens, closes = 0, os.open, os.close

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*words: Any, **named: Any) -> Any:
            nonlocal made
            made += 1
            if made == step and not after:
                raise Killed
            result = call(*words, **named)
            if made == step:
                if isinstance(result, int) and call is opens:
                    closes(result)  # as the kernel does
                raise Killed
            return result

        return wrapped

    for name in CALLS:
        patch.setattr(os, name, counted(getattr(os, name)))
    return lambda: made


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("taken_in_between", [False, True])
def test_a_kill_anywhere_makes_no_second_job_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool, taken_in_between: bool
) -> None:
    """So the claim is on disk before the envelope, also after a power failure."""
    monkeypatch.chdir(tmp_path)
    step = 0
    while True:
        step += 1
        place = Place(tmp_path / str(step))
        place.put("good.rad")
        place.put("wrong.rad", "")
        with monkeypatch.context() as patch:
            calls = killed_at(step, after, patch)
            try:
                place.look()
            except Killed:
                pass
            if calls() < step:
                break  # it came to its end
        if taken_in_between:
            place.ingest()
        place.look()
        place.look()
        place.ingest()
        assert [os.path.basename(e.file or "") for e in place.jobs.values()] == ["good.rad"]
        assert [name[:26] for name in place.names("done")] == list(place.jobs)
        assert place.names() == [] and os.listdir(place.spool) == []
        left = place.names("refused")
        assert [is_ticket(name[:26]) for name in left] == [True, True]
        assert [name[27:] for name in left] == ["wrong.rad", "wrong.rad.txt"]
    assert step > 25


def test_the_claim_is_on_disk_before_the_envelope(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power failure could undo the claim and leave the envelope: two jobs."""
    told: list[str] = []
    for owner, name in ((os, "rename"), (os, "fsync"), (Spool, "put")):
        before = getattr(owner, name)

        def note(
            *words: Any, name: str = name, before: Callable[..., Any] = before, **named: Any
        ) -> Any:
            told.append(name)
            return before(*words, **named)

        monkeypatch.setattr(owner, name, note)
    place.put("a.rad")
    place.look()
    assert told[:3] == ["rename", "fsync", "put"] and told[-1] == "rename"


# ------------------------------------------------------------------ the login


@pytest.fixture
def user(tmp_path: Path) -> Callable[[str], User]:
    """A user whose shell is this script."""

    def made(script: str) -> User:
        shell = tmp_path / "shell"
        shell.write_text(script)
        shell.chmod(0o755)
        return User("ann", str(tmp_path), str(shell))

    return made


ASKED = 'eval "$2"\n'


def test_a_login_shell_gives_its_environment_and_umask(user: Callable[[str], User]) -> None:
    talks = "#!/bin/sh\necho welcome; export A='x\ny' B=; umask 007\n"
    login = log_in(user(talks + ASKED))
    assert (login.environment["A"], login.environment["B"], login.umask) == ("x\ny", "", 0o007)
    assert login.environment["USER"] == login.environment["LOGNAME"] == "ann"
    assert login.note is None
    assert not {"RADRM_TOKEN", "SHLVL", "_", "PWD"} & login.environment.keys()
    before = os.umask(0o777)
    try:
        assert log_in(user("#!/bin/sh\n" + ASKED)).umask == 0o022, "not the look's own"
    finally:
        os.umask(before)


def test_what_a_profile_leaves_behind_holds_nothing_up(
    user: Callable[[str], User], tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    login = log_in(user(f"#!/bin/sh\nsleep 1000 & echo $! > {pid}\nexport A=1\n{ASKED}"))
    assert login.environment["A"] == "1"
    wait_until(lambda: not _runs(int(pid.read_text())), "its end")


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
        ("#!/bin/sh\nwhile :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done\n", "every login"),
        ("#!/nonexistent\n", "No such file"),
    ],
)
def test_without_an_answer_there_is_what_every_login_has(
    user: Callable[[str], User], script: str, note: str
) -> None:
    login = log_in(user(script), limit_s=0.3 if "longer" in note else 60.0)
    assert note in login.note
    assert login.environment["HOME"] == login.environment["SHELL"].rpartition("/")[0]


# ------------------------------------------------------------------ a look's process


@pytest.fixture
def paths() -> Iterator[Paths]:
    """A place that other users can reach."""
    place = Path(tempfile.mkdtemp(prefix="radrm-test-"))
    place.chmod(0o755)
    (place / "spool").mkdir()
    (place / "spool").chmod(0o1777)
    yield Paths(str(place), str(place / "run"))
    shutil.rmtree(place)


@needs_root
def test_a_look_has_its_users_rights_and_no_more(paths: Paths) -> None:
    watching = Watching(paths, True)
    folder = Path(UserFolders(paths.users).make(NOBODY, NOBODY))
    text = "#!/bin/sh\n#RAD --gpus=0 --chdir=/\necho hi\n"
    (folder / "mine.rad").write_text(text)
    (folder / "roots.rad").write_text(text)
    (folder / "link.rad").symlink_to("/etc/shadow")
    os.chown(folder / "mine.rad", NOBODY, NOBODY)
    report = watching._report(Owned(str(folder), NOBODY, NOBODY))
    assert [name for name, *_ in report.taken] == ["mine.rad"], report
    assert [name for name, _ in report.refused] == ["link.rad", "roots.rad"]
    (arrival,) = all_of(Spool(paths.spool))
    assert (arrival.uid, arrival.gid, arrival.wrong) == (NOBODY, NOBODY, None)
    assert arrival.envelope.environment["USER"] == arrival.envelope.environment["LOGNAME"]
    assert arrival.envelope.environment["HOME"] != os.environ.get("HOME")
    assert {os.lstat(path).st_uid for path in folder.rglob("*.txt")} == {NOBODY}
    os.chown(folder, 0, 0)
    closed = watching._report(Owned(str(folder), NOBODY, NOBODY))
    assert "Permission denied" in closed.error


@pytest.mark.parametrize(
    "said", ["null", "{", "[" * 100_000, '{"taken": [["a"]]}', '{"again": "yes"}', "\xff"]
)
def test_what_is_no_report_is_not_believed(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"import sys\nsys.stdout.buffer.write({said!r}.encode('latin-1'))")
    monkeypatch.setattr(look, "__file__", str(program))
    report = Watching(paths, False)._report(Owned(paths.spool, 0, 0))
    assert report.error.endswith("ended without a report")


@pytest.mark.parametrize("text", ["while True: print('x' * 99999)", "import time; time.sleep(99)"])
def test_a_look_that_floods_or_hangs_is_ended(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(text)
    monkeypatch.setattr(look, "__file__", str(program))
    monkeypatch.setattr(look, "LIMIT_S", -4.7)
    assert Watching(paths, False)._report(Owned(paths.spool, 0, 0)).error is not None


# ------------------------------------------------------------------ when there is a look


class Turns:
    """A watching thread whose turns the test makes, and whose looks end as it says."""

    def __init__(self, paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watching = Watching(paths, os.geteuid() == 0)
        self.looked: list[str] = []
        self.report = Report()
        self.now_s = 0.0
        monkeypatch.setattr(self.watching, "_report", self._report)
        monkeypatch.setattr(watchings, "threading", SimpleNamespace(Thread=_AtOnce))
        monkeypatch.setattr(watchings, "time", SimpleNamespace(monotonic=lambda: self.now_s))

    def _report(self, owned: Owned) -> Report:
        self.looked.append(owned.path)
        return self.report

    def looks(self, seconds: int = 1) -> int:
        """How many looks there are in so many seconds."""
        before = len(self.looked)
        for _ in range(seconds):
            self.now_s += 1.0
            self.watching.poll(self.now_s)
        return len(self.looked) - before


class _AtOnce:
    def __init__(self, target: Callable[..., None], args: tuple[Any, ...] = (), **_: Any) -> None:
        self._target, self._args = target, args

    def start(self) -> None:
        self._target(*self._args)


@pytest.fixture
def turns(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(paths, monkeypatch)


@needs_root
def test_only_a_folder_with_a_file_is_looked_into(turns: Turns, paths: Paths) -> None:
    folder = Path(UserFolders(paths.users).make(NOBODY, NOBODY))
    (folder / "notes.txt").touch()
    assert turns.looks(3) == 0
    path = folder / "a.rad"
    path.touch()
    assert turns.looks() == 1
    path.unlink()
    assert turns.looks(100) == 0
    (folder / claim_of(TICKET, "b.rad")).touch()
    assert turns.looks() == 1, "what a killed look has left"
    shutil.rmtree(folder)
    assert turns.looks(10) == 0 and not turns.watching._kept


@needs_root
@pytest.mark.parametrize(
    ("report", "least", "most"),
    [
        (Report(error="no"), 18, 24),
        (Report(again=True), 18, 24),
        (Report(refused=[("a", "b")]), 300, 300),
    ],
)
def test_a_folder_that_comes_to_nothing_waits_longer_each_time(
    turns: Turns, paths: Paths, report: Report, least: int, most: int
) -> None:
    Path(UserFolders(paths.users).make(NOBODY, NOBODY), "a.rad").touch()
    turns.report = report
    assert least <= turns.looks(300) <= most
    turns.report = Report(taken=[("a.rad", "T", "a")])
    turns.looks(20)
    assert turns.looks(5) == 5, "success ends the waiting"


@needs_root
def test_many_folders_have_their_turn_a_few_at_a_time(
    turns: Turns, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchings, "AT_ONCE", 2)
    monkeypatch.setattr(_AtOnce, "start", lambda each: turns.looked.append(each._args[0].path))
    for uid in range(1, 6):
        Path(UserFolders(paths.users).make(uid, uid), "a.rad").touch()
    assert (turns.looks(), turns.looks()) == (2, 0)
    for kept in turns.watching._kept.values():
        kept.busy, kept.due_s = False, turns.now_s if kept.busy else kept.due_s
    assert turns.looks() == 2 and len(set(turns.looked)) == 4, "nobody has a second turn before"


@needs_root
@pytest.mark.parametrize("silent", [True, False])
def test_what_a_user_mounts_over_a_folder_is_not_entered(
    turns: Turns, paths: Paths, silent: bool
) -> None:
    requires_mounts()
    users = UserFolders(paths.users)
    covered, other = Path(users.make(NOBODY, NOBODY)), Path(users.make(1, 1))
    with mounted(covered, silent):
        assert [owned.path for owned in users.all()] == [str(other)]
        with pytest.raises(StoreError, match="a file system is mounted there"):
            users.make(NOBODY, NOBODY)
        (other / "a.rad").touch()
        assert turns.looks() == 1 and turns.looked == [str(other)]


# ------------------------------------------------------------------ the folders of users


@needs_root
def test_a_users_folder_is_made_by_root_and_given_away(tmp_path: Path) -> None:
    users = UserFolders(str(tmp_path / "users"))
    assert users.all() == []
    (tmp_path / "users" / str(NOBODY)).mkdir(mode=0o700)  # by one that was killed then
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
    monkeypatch.setattr(folders, "MOST_USERS", 4)
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
def test_users_that_root_has_not_made_is_left_alone_and_told_once(
    turns: Turns, paths: Paths, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, users = Path(paths.users), UserFolders(paths.users)
    if how == "link":
        path.symlink_to(paths.state)
    elif how == "file":
        path.write_text("")
    else:
        path.mkdir()
        os.chown(path, NOBODY if how == "squatted" else 0, 0)
        path.chmod(0o755 if how == "squatted" else 0o777)
    before = os.lstat(path)
    for act in (users.all, lambda: users.make(7, 7)):
        with pytest.raises(StoreError, match="move it away"):
            act()
    assert turns.looks(5) == 0 and len(caplog.records) == 1
    after = os.lstat(path)
    assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)
    path.rename(f"{paths.state}/away")
    assert users.all() == [] and os.stat(path).st_uid == 0, "it is made anew"
