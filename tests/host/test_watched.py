"""Watched folders: a complete file becomes one job, whatever happens in between; nothing else
does, and each file that is refused has its reason beside it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from radrm.errors import StoreError
from radrm.host.arrivals import Arrivals
from radrm.host.spool import Envelope, Spool
from radrm.host.tickets import is_ticket, new_ticket
from radrm.host.watched import folder as folders
from radrm.host.watched import taking
from radrm.host.watched.folder import Busy, Folder, Trouble
from radrm.host.watched.login import Login
from radrm.host.watched.names import claim_of, claimed, is_job_file, printable, reserved
from radrm.host.watched.taking import Look, Report
from radrm.radfile import MAX_BYTES
from tests.host.test_spool import all_of

SCRIPT = "#!/bin/sh\n#RAD --gpus=0\necho hi\n"
TICKET = "01M80TA4D4JDCEV010A4H87B41"
LOGIN = Login({"PATH": "/bin", "GREETING": "hello"}, 0o027)


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
        self, *moved: str, pause: Callable[[float], None] = lambda _: None, **words: Any
    ) -> Report:
        with Folder(str(self.folder)) as folder:
            home = str(words.pop("home", self.home))
            spool = Spool(str(self.spool))
            return Look(folder, spool, home, lambda: LOGIN, moved, pause=pause, **words).run()

    def ingest(self) -> None:
        """As the daemon does: a ticket that is known makes no second job."""
        waiting = Spool(str(self.spool))
        for arrival in all_of(waiting):
            assert arrival.envelope is not None, arrival.wrong
            self.jobs.setdefault(arrival.envelope.ticket, arrival.envelope)
            os.unlink(self.spool / arrival.name)

    def names(self, below: str = "") -> list[str]:
        found = sorted(os.listdir(self.folder / below))
        return [name for name in found if name not in ("done", "refused", ".lock")]

    def reasons(self) -> dict[str, str]:
        """Each refused file, without its ticket, and its reason."""
        files = [name for name in self.names("refused") if not name.endswith(".txt")]
        reasons = [name for name in self.names("refused") if name.endswith(".txt")]
        assert reasons == [f"{name}.txt" for name in files]
        return {name[27:]: (self.folder / "refused" / f"{name}.txt").read_text() for name in files}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(taking, "SETTLE_S", 0.0)
    return Place(tmp_path)


# ------------------------------------------------------------------ names


@given(st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=250))
def test_a_claim_holds_ticket_and_name_and_fits_a_file_system(stem: str) -> None:
    assume(not stem.startswith("."))
    ticket = new_ticket()
    claim = claim_of(ticket, f"{stem}.rad")
    assert len(os.fsencode(claim)) + len(".txt") <= 255 and "/" not in claim
    found = claimed(claim)
    assert found is not None and found[0] == ticket
    if printable(stem) and len(stem.encode()) <= 180:
        assert found[1] == f"{stem}.rad"
    assert not is_job_file(claim)


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
        ("notes.txt", False, False),
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
    assert not arrivals.list_on()
    assert len(arrivals.turns) == 0
    assert not caplog.records
    (tmp_path / "notes.txt").touch()
    arrivals.list_anew()
    assert not arrivals.list_on()
    assert "1 name(s) in the spool are not radrm's" in caplog.text


# ------------------------------------------------------------------ what becomes a job


def test_a_file_becomes_what_submit_would_make_of_it_at_home_after_a_login(place: Place) -> None:
    (place.home / "net.model").write_text("Total params: 12\n")
    place.put("train.rad", SCRIPT.replace("--gpus=0", "--gpus=0 --model-summary=net.model"))
    report = place.look(extra={"RADRM_HOME": "/r"})
    place.ingest()
    ((ticket, made),) = place.jobs.items()
    assert report.taken == [["train.rad", ticket, "train"]] and not report.refused
    assert made.script is not None and made.script.endswith("echo hi\n")
    assert (made.cwd, made.umask) == (str(place.home), 0o027)
    assert made.environment == {**LOGIN.environment, "RADRM_HOME": "/r"}
    assert (made.file, made.options) == (str(place.folder / "train.rad"), {})
    assert made.summary == "Total params: 12\n"
    assert place.names() == [] and place.names("done") == [f"{ticket}.train.rad"]
    assert stat.S_IMODE(os.stat(place.folder / "done").st_mode) == 0o700


def test_files_are_submitted_in_the_order_of_their_names(place: Place) -> None:
    for name in ("c.rad", "a.rad", "b.rad"):
        place.put(name)
    place.look()
    place.ingest()
    assert [os.path.basename(e.file or "") for _, e in sorted(place.jobs.items())] == [
        "a.rad", "b.rad", "c.rad",
    ]  # fmt: skip


def test_other_names_are_left_alone(place: Place) -> None:
    for name in ("notes.txt", ".hidden.rad", "train.rad.part", "rad"):
        place.put(name)
    assert place.look() == Report([], [], notes=[])
    assert len(place.names()) == 4


def test_nobody_is_logged_in_for_nothing(place: Place) -> None:
    place.put("empty.rad", "")
    report = place.look()
    assert report.refused and not report.logged_in


def test_a_note_on_a_file_is_told(place: Place) -> None:
    place.put("a.rad", SCRIPT + "\r\n")
    place.put("b.rad", SCRIPT.replace("--gpus=0", "--gpus=0 --model-summary=none.model"))
    notes = place.look().notes
    assert any("CRLF" in note for note in notes) and any("none.model" in note for note in notes)


# ------------------------------------------------------------------ what is complete


def test_a_file_that_changes_is_left_until_it_does_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.put("a.rad", "#!/bin/sh\n")
    place.put("b.rad")

    def write_on(_: float) -> None:
        with path.open("a") as file:
            file.write("echo more\n")

    claimed_names: list[str] = []
    claim = Folder.claim

    def noted(self: Folder, name: str, ticket: str) -> str:
        claimed_names.append(name)
        return claim(self, name, ticket)

    monkeypatch.setattr(Folder, "claim", noted)
    report = place.look(pause=write_on)
    assert claimed_names == ["b.rad"], "who writes it finds it under its name"
    assert report.unsettled == 1 and [name for name, *_ in report.taken] == ["b.rad"]
    assert place.names() == ["a.rad"]
    assert place.look().taken and place.names() == []


def test_a_file_that_was_renamed_into_place_is_complete(place: Place) -> None:
    place.put("a.rad")

    def never(_: float) -> None:
        raise AssertionError("it waits")

    assert place.look("a.rad", pause=never).taken


def test_another_file_of_the_same_name_is_another_file(place: Place) -> None:
    path = place.put("a.rad")
    report = place.look(
        pause=lambda _: (
            (place.folder / "new").write_text(SCRIPT) and os.replace(place.folder / "new", path)
        )
    )
    assert report.unsettled == 1 and place.names() == ["a.rad"]


def test_a_file_that_changes_while_it_is_read_is_given_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.put("a.rad")
    claim = Folder.claim

    def claim_and_write(self: Folder, name: str, ticket: str) -> str:
        with path.open("a") as file:
            file.write("echo more\n")
        return claim(self, name, ticket)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "claim", claim_and_write)
        assert place.look("a.rad").unsettled == 1
    assert place.names() == ["a.rad"]
    place.look()
    place.ingest()
    assert ["echo more" in (e.script or "") for e in place.jobs.values()] == [True]


def test_a_file_that_changes_between_first_and_last_byte_is_given_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put("a.rad")
    check = folders._check

    def write_after(found: os.stat_result) -> None:
        check(found)
        (claim,) = (name for name in os.listdir(place.folder) if claimed(name))
        with (place.folder / claim).open("a") as file:
            file.write("echo more\n")

    monkeypatch.setattr(folders, "_check", write_after)
    seen = Folder.read
    monkeypatch.setattr(Folder, "read", lambda self, claim, _: seen(self, claim, None))
    assert place.look("a.rad").unsettled == 1 and place.names() == ["a.rad"]
    place.ingest()
    assert not place.jobs


def test_a_file_that_is_given_back_replaces_no_new_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.put("a.rad", SCRIPT.replace("hi", "old"))
    claim = Folder.claim

    def claim_and_replace(self: Folder, name: str, ticket: str) -> str:
        made = claim(self, name, ticket)
        with (place.folder / made).open("a") as file:
            file.write("echo more\n")
        path.write_text(SCRIPT.replace("hi", "new"))
        return made

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "claim", claim_and_replace)
        place.look("a.rad")
    place.look()
    place.ingest()
    scripts = [e.script or "" for _, e in sorted(place.jobs.items())]
    assert ["old" in s for s in scripts] == [True, False] and "new" in scripts[1]


# ------------------------------------------------------------------ what is refused


def _link(place: Place) -> None:
    (place.folder / "x.rad").symlink_to("/etc/hostname")


def _hard_link(place: Place) -> None:
    (place.home / "secret").write_text("echo secret")
    os.link(place.home / "secret", place.folder / "x.rad")


def _foreign(place: Place) -> None:
    os.chown(place.put("x.rad"), 65534, 65534)


def _closed(place: Place) -> None:
    place.put("x.rad").chmod(0)


def _sparse(place: Place) -> None:
    os.truncate(place.put("x.rad"), 1 << 40)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
no_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may open any file")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda p: os.mkfifo(p.folder / "x.rad"), "it is a FIFO"),
        (lambda p: (p.folder / "x.rad").mkdir(), "it is a folder"),
        (_link, "it is a symbolic link"),
        (_hard_link, "it has 2 names"),
        (_sparse, f"it has {1 << 40} bytes, and a job file has {MAX_BYTES} at most"),
        pytest.param(_foreign, "it belongs to user 65534, not to user 0", marks=needs_root),
        pytest.param(_closed, "it cannot be opened", marks=no_root),
        (lambda p: p.put("x.rad", ""), "x.rad: empty"),
        (lambda p: p.put("x.rad", "echo \0"), "NUL byte at offset 5"),
        (lambda p: p.put("x.rad", "#RAD --gpu=1\ntrue"), "did you mean --gpus?"),
        (lambda p: p.put("x.rad", "#RAD --array=0-9\n"), "holds no command"),
    ],
)
def test_what_is_no_job_is_refused_with_one_reason(
    place: Place, make: Callable[[Place], object], reason: str
) -> None:
    make(place)
    place.put("good.rad")
    report = place.look("x.rad")
    place.ingest()
    assert [name for name, *_ in report.taken] == ["good.rad"] and len(place.jobs) == 1
    assert [name for name, _ in report.refused] == ["x.rad"]
    (told,) = place.reasons().values()
    assert reason in told and told.count("\n") == 1
    assert place.names() == [] and place.look() == Report([], [], notes=[])


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
    report = place.look(home="/nonexistent")
    place.ingest()
    assert [name for name, _ in report.refused] == ["a.rad"]
    assert "/nonexistent" in place.reasons()["a.rad"] and "--chdir" in place.reasons()["a.rad"]
    assert [e.cwd for e in place.jobs.values()] == ["/"]


def test_an_error_of_the_parser_is_the_files_affair(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise KeyError("script")

    monkeypatch.setattr(taking, "read_job_file", breaks)
    place.put("a.rad")
    place.look()
    assert "KeyError" in place.reasons()["a.rad"]


def test_an_envelope_that_no_daemon_would_take_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put("a.rad")
    huge = Login({"A": "x" * (9 << 20)}, 0o022)
    with Folder(str(place.folder)) as folder:
        Look(folder, Spool(str(place.spool)), str(place.home), lambda: huge, ("a.rad",)).run()
    assert "larger than 8 MiB" in place.reasons()["a.rad"]


# ------------------------------------------------------------------ how much at once


def test_a_look_is_bounded_and_says_that_there_is_more(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MOST_FILES", 3)
    for number in range(7):
        place.put(f"{number}.rad", "" if number % 2 else SCRIPT)
    looks = [place.look() for _ in range(4)]
    assert [len(r.taken) + len(r.refused) for r in looks] == [3, 3, 1, 0]
    assert [r.more for r in looks] == [True, True, False, False]


def test_names_beyond_the_bound_are_not_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MOST_ENTRIES", 10)
    for number in range(30):
        place.put(f"{number}.rad", "")
    with Folder(str(place.folder)) as folder:
        files, claims = folder.names()
    assert len(files) <= 10 and not claims


def test_no_file_is_begun_when_the_time_is_over(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "BUDGET_S", -1.0)
    place.put("a.rad")
    report = place.look()
    assert report.more and not report.taken and place.names() == ["a.rad"]


# ------------------------------------------------------------------ the folder


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda p: p.folder.chmod(0o770), "others may write"),
        (lambda p: (p.folder / "done").symlink_to(p.home), "done is a symbolic link"),
        (lambda p: (p.folder / "refused").symlink_to(p.home), "refused is a symbolic link"),
        (lambda p: (p.folder / "done").write_text(""), "done is not a folder"),
        (lambda p: (p.folder / "done").mkdir() or (p.folder / "done").chmod(0o777), "others may"),
        (
            lambda p: p.folder.rename(p.home / "real") and p.folder.symlink_to(p.home / "real"),
            "is a symbolic link",
        ),
        pytest.param(
            lambda p: os.chown(p.folder, 65534, 65534), "belongs to user 65534", marks=needs_root
        ),
    ],
)
def test_a_folder_that_is_not_ones_own_is_not_looked_into(
    place: Place, spoil: Callable[[Place], object], words: str
) -> None:
    place.put("a.rad")
    spoil(place)
    with pytest.raises(Trouble, match=words):
        place.look()
    assert (place.folder / "a.rad").exists()
    assert not [path for path in place.home.iterdir() if path.name != "real"]


def test_the_reason_is_in_the_folder_while_done_cannot_be_used(place: Place) -> None:
    place.put("a.rad")
    (place.folder / "done").symlink_to(place.home)
    with pytest.raises(Trouble):
        place.look()
    assert "symbolic link" in (place.folder / "refused" / "done.txt").read_text()
    (place.folder / "done").unlink()
    assert place.look().taken and place.names("refused") == []


def test_a_folder_that_is_replaced_while_it_is_looked_into_stays_the_one(place: Place) -> None:
    place.put("a.rad")
    elsewhere = place.home / "victim"
    elsewhere.mkdir()
    (elsewhere / "a.rad").write_text("echo another's")

    def replace(_: float) -> None:
        place.folder.rename(place.home / "moved")
        place.folder.symlink_to(elsewhere)

    assert place.look(pause=replace).taken
    assert sorted(os.listdir(elsewhere)) == ["a.rad"]
    assert len(os.listdir(place.home / "moved" / "done")) == 2


def test_two_looks_do_not_meet(place: Place) -> None:
    with Folder(str(place.folder)), pytest.raises(Busy):
        place.look()


def test_others_cannot_hold_the_lock(place: Place) -> None:
    place.look()
    assert stat.S_IMODE(os.stat(place.folder / "done" / ".lock").st_mode) == 0o600


# ------------------------------------------------------------------ trouble, and kills


@pytest.mark.parametrize("where", ["put", "finish", "refuse"])
def test_on_a_full_disk_files_wait_and_none_is_lost(
    place: Place, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    place.put("a.rad", "" if where == "refuse" else SCRIPT)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fails(*_: object) -> None:
        raise StoreError("cannot write to the spool: No space left") if where == "put" else full

    with monkeypatch.context() as patch:
        patch.setattr(Spool if where == "put" else Folder, where, fails)
        report = place.look()
        assert report.trouble and "space" in report.trouble and not report.refused
        place.ingest()
    place.look()
    place.ingest()
    assert len(place.jobs) == (0 if where == "refuse" else 1) and place.names() == []
    assert len(place.reasons()) == (1 if where == "refuse" else 0)


def test_a_file_that_cannot_be_moved_keeps_no_other_waiting(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Folder.claim

    def denied(self: Folder, name: str, ticket: str) -> str:
        if name == "a.rad":
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return claim(self, name, ticket)

    monkeypatch.setattr(Folder, "claim", denied)
    place.put("a.rad")
    place.put("b.rad")
    report = place.look()
    assert [name for name, *_ in report.taken] == ["b.rad"]
    assert report.trouble is not None and "a.rad" in report.trouble


def test_a_folder_that_not_even_its_owner_may_move_is_out_of_the_way(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def denied(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        if src_dir_fd != dst_dir_fd:
            raise PermissionError(errno.EACCES, "Permission denied")
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    (place.folder / "x.rad").mkdir()
    monkeypatch.setattr(os, "rename", denied)
    assert place.look().refused
    monkeypatch.undo()
    (name,) = place.names()
    assert name.endswith(".x.rad.refused") and place.names("refused")
    assert place.look() == Report([], [], notes=[])


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
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(taking, "SETTLE_S", 0.0)
    step = 0
    while True:
        step += 1
        place = Place(tmp_path / str(step))
        place.put("good.rad")
        place.put("wrong.rad", "")
        with monkeypatch.context() as patch:
            calls = killed_at(step, after, patch)
            try:
                place.look("good.rad")
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
        leftovers = [name for name in place.names("refused") if not name.startswith(".")]
        assert [is_ticket(name[:26]) for name in leftovers] == [True, True]
        assert [name[27:] for name in leftovers] == ["wrong.rad", "wrong.rad.txt"]
    assert step > 25


def test_the_claim_is_on_disk_before_the_envelope(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power failure could undo the claim and leave the envelope: two jobs."""
    told: list[str] = []
    for owner, name in ((Folder, "claim"), (Folder, "sync"), (Spool, "put"), (Folder, "finish")):
        before = getattr(owner, name)

        def note(
            self: object, *words: Any, name: str = name, before: Callable[..., Any] = before
        ) -> Any:
            told.append(name)
            return before(self, *words)

        monkeypatch.setattr(owner, name, note)
    place.put("a.rad")
    place.look()
    assert told == ["claim", "sync", "put", "finish"]
