"""The crash matrix: its short form, that it can fail, and that it crosses every fault point."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proofs.crash import account
from proofs.crash.account import account_of
from proofs.crash.jobs import Submitted
from proofs.crash.place import Place
from proofs.crash.points import RECORD, all_points, never_reached, points_of
from proofs.crash.synced import copy_all, keep_shadow
from radrm.host import crossings
from radrm.host.storage.files import fsync_folder, write_durably
from tests.paths import REPOSITORY


@pytest.mark.daemon
def test_a_short_matrix_loses_doubles_and_leaves_nothing() -> None:
    command = [sys.executable, "-m", "proofs.crash", "--at-once=1", "--kills=2", "--cuts=1"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_last_complete_run_crossed_every_point_of_the_source() -> None:
    recorded = RECORD.read_text().splitlines()
    assert sorted(all_points()) == recorded, "run: make crash, then commit its list of points"


def test_a_point_of_several_files_is_crossed_by_any_of_them() -> None:
    names = ["daemon: file synced launch.json", "runner: file syncedness"]
    assert set(all_points()) - set(never_reached(names)) == {"file synced"}


def test_a_point_without_a_name_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('crossed("one")\ncrossed("two", what)\n')
    assert points_of(tmp_path) == {"one", "two"}
    (tmp_path / "b.py").write_text("crossed(name)\n")
    with pytest.raises(ValueError, match=r"b\.py:1 crosses a point without a name"):
        points_of(tmp_path)


def test_nothing_watches_in_production() -> None:
    assert crossings._watcher is None
    texts = [path.read_text() for path in (REPOSITORY / "radrm").rglob("*.py")]
    imports = [line for text in texts for line in text.split("\n") if "crossings" in line]
    found = {line.strip() for line in imports if "import" in line}
    assert found == {"from radrm.host.crossings import crossed"}


def test_a_power_failure_leaves_what_was_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", os.fsync)  # as it is now, after this test
    home, copy = tmp_path / "home", tmp_path / "copies" / "0"
    for folder in (home, tmp_path / "work"):
        folder.mkdir()
    keep_shadow(str(tmp_path))
    write_durably(home / "record", b"whole")
    (home / "torn").write_bytes(b"never synced")
    fsync_folder(home)
    (home / "folder").mkdir()
    (home / "record").rename(home / "renamed")
    copy_all(str(tmp_path))
    assert {p.name for p in (copy / "all").iterdir()} == {"renamed", "torn", "folder"}
    assert {p.name: p.read_bytes() for p in (copy / "synced").iterdir()} == {
        "record": b"whole",
        "torn": b"",
    }


# ------------------------------------------------------------------ the account can fail


class Home(Place):
    """A home without processes: its records and notes are written by the test."""

    def __init__(self) -> None:
        super().__init__([])
        os.makedirs(self.paths.store, exist_ok=True)
        for folder in ("starts", "ends"):
            os.mkdir(f"{self.work}/{folder}")
        self.store = sqlite3.connect(self.paths.database)
        self.store.execute("CREATE TABLE jobs (id INTEGER, ticket TEXT, record TEXT)")
        self.store.execute("CREATE TABLE attempts (serial INTEGER, record TEXT)")
        self.gpu = {"index": 0, "jobs": [], "used_mib": 0, "reserved_mib": 0}

    def ask(self, op: str, **words: Any) -> Any:
        return [self.gpu]

    def job(self, job_id: int, ticket: str, state: str = "COMPLETED") -> None:
        record = json.dumps({"state": state, "reason": None})
        self.store.execute("INSERT INTO jobs VALUES (?, ?, ?)", (job_id, ticket, record))

    def attempt(self, job_id: int, number: int, outcome: str = "completed", **more: Any) -> None:
        serial = 10 * job_id + number
        record = {"job_id": job_id, "number": number, "serial": serial, "outcome": outcome}
        record |= {"started": 1, "ended": 2, "exit_code": 0, **more}
        self.store.execute("INSERT INTO attempts VALUES (?, ?)", (serial, json.dumps(record)))

    def note(self, name: str, *lines: str) -> None:
        Path(self.work, name).write_text("".join(f"{line}\n" for line in lines))

    def wrong(self, job: Submitted) -> list[str]:
        self.store.commit()
        found = account_of(self, [job]).wrong
        return [f"{kind}: {line}" for kind, lines in found.items() for line in lines]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(account, "_REMOVAL_S", 0.0)
    found = Home()
    yield found
    found.store.close()
    found.close(failed=False)


def light(**more: Any) -> Submitted:
    return Submitted("light0", "light", 0, "T", **{"acknowledged": True, **more})


def sound(place: Home) -> None:
    """A job that ran once, to its end."""
    place.job(1, "T")
    place.attempt(1, 1)
    place.note("starts/light0", "1")
    place.note("ends/light0", "1 0")


def never_ended(place: Home) -> None:
    place.job(1, "T", "RUNNING")


def began_twice(place: Home) -> None:
    sound(place)
    place.note("starts/light0", "1", "1")


def began_unknown(place: Home) -> None:
    sound(place)
    place.note("starts/light0", "1", "2")


def ran_again(place: Home) -> None:
    sound(place)
    place.attempt(1, 2)
    place.note("starts/light0", "1", "2")
    place.note("ends/light0", "1 0", "2 0")


def lived_twice(place: Home) -> None:
    sound(place)
    place.note("doubled", "light0 1")


def was_lost(place: Home) -> None:
    place.job(1, "T", "FAILED")
    place.attempt(1, 1, "lost", exit_code=None)
    place.note("starts/light0", "1")


def was_lost_by_a_kill(place: Home) -> None:
    was_lost(place)
    Path(place.folder, "killed").write_text("runners 11\n")


def contradicts(place: Home) -> None:
    sound(place)
    place.note("ends/light0", "1 42")


@pytest.mark.parametrize(
    ("happened", "job", "found"),
    [
        (sound, light(), None),
        (None, light(), "lost: light0 has 0 of 1 jobs"),
        (None, light(acknowledged=False), None),  # its submit was killed
        (never_ended, light(), "lost: light0 (job 1) is RUNNING for ever: None"),
        (began_twice, light(), "doubled: light0 began 2 times in attempt 1"),
        (began_unknown, light(), "doubled: light0 began in attempt 2, unknown to the store"),
        (ran_again, light(), "doubled: light0 ran again after number 1"),
        (lived_twice, light(), "doubled: two attempts lived at once: light0 1"),
        (was_lost, light(), "untrue: light0 was lost, and its runner was not killed"),
        (was_lost_by_a_kill, light(), None),
        (contradicts, light(), "untrue: light0 completed, and noted 42"),
        (
            sound,
            light(asked=True, cancelled={1}),
            "untrue: light0 was cancelled, and is COMPLETED: None",
        ),
    ],
)
def test_each_kind_of_wrong_is_found_once(
    place: Home, happened: Callable[[Home], None] | None, job: Submitted, found: str | None
) -> None:
    if happened is not None:
        happened(place)
    lines = place.wrong(job)
    assert len(lines) == (found is not None) and all(line.startswith(found) for line in lines)


def test_what_is_left_is_orphaned(place: Home) -> None:
    sound(place)
    os.mkdir(f"{place.paths.attempts}/11")
    place.gpu["used_mib"] = 100
    process = subprocess.Popen(["sleep", "1000"], env=dict(place.job_environment()))
    try:
        left, folder, gpu = place.wrong(light())
    finally:
        process.kill()
        process.wait()
    assert left == f"orphaned: process {process.pid} is left: sleep 1000"
    assert folder == f"orphaned: {place.paths.attempts}/11 is left"
    assert gpu.startswith("orphaned: GPU 0 is not free")
