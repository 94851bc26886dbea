"""A file becomes one job, whatever happens between two steps, and none is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radrm.errors import StoreError
from radrm.host.storage.spool import Spool
from radrm.host.storage.tickets import is_ticket
from radrm.host.watched import taking
from radrm.host.watched.folder import Folder
from radrm.host.watched.taking import Report
from tests.host.watched.place import SCRIPT, Place, place

__all__ = ["place"]

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
        assert report.error and "space" in report.error and not report.refused
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
    assert report.error is not None and "a.rad" in report.error


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
