"""Watched folders: a complete file becomes what `radrm submit` would make of it, and nothing
else does."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from radrm.host.storage.arrivals import Arrivals
from radrm.host.storage.tickets import new_ticket
from radrm.host.watched import folder as folders
from radrm.host.watched import taking
from radrm.host.watched.folder import Folder
from radrm.host.watched.names import claim_of, claimed, is_job_file, printable, reserved
from radrm.host.watched.taking import Report
from tests.host.watched.place import LOGIN, SCRIPT, TICKET, Place, place

__all__ = ["place"]

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
