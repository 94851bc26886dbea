"""What is no job is refused with its reason beside it; a folder that is not one's own is left."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

import pytest

from radrm.host.storage.spool import Spool
from radrm.host.watched import taking
from radrm.host.watched.folder import Busy, Folder, FolderError
from radrm.host.watched.login import Login
from radrm.host.watched.taking import Look, Report
from radrm.jobfile.radfile import MAX_BYTES
from tests.host.watched.place import SCRIPT, Place, needs_root, no_root, place

__all__ = ["place"]

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
        (
            lambda p: p.put("x.rad", "#RAD --after=3 --after=prep:any\ntrue"),
            "--after=prep: a file that is copied in can only name ids and tickets; write the id",
        ),
        (
            lambda p: p.put("x.rad", "#RAD --due='2020-01-31 9:00'\ntrue"),
            "'2020-01-31 9:00' is over: ",
        ),
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


def test_code_is_not_copied_from_a_spool_folder(place: Place) -> None:
    """It would be the whole home folder."""
    place.put("a.rad", SCRIPT.replace("--gpus=0", "--gpus=0 --snapshot"))
    place.look()
    place.ingest()
    assert "--snapshot is for the command line" in place.reasons()["a.rad"] and not place.jobs


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
    with pytest.raises(FolderError, match=words):
        place.look()
    assert (place.folder / "a.rad").exists()
    assert not [path for path in place.home.iterdir() if path.name != "real"]


def test_the_reason_is_in_the_folder_while_done_cannot_be_used(place: Place) -> None:
    place.put("a.rad")
    (place.folder / "done").symlink_to(place.home)
    with pytest.raises(FolderError):
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
