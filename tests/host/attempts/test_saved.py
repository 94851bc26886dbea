"""What a job has proven to have saved: `saved.json`, and the newest file of its folder."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from radrm.host.attempts import evidence
from radrm.host.attempts.evidence import Evidence, Saved, saved_in
from radrm.host.attempts.saved import FOLDER_VARIABLE, NOTHING, looks_at_saved, parse
from radrm.host.attempts.tails import read_as_user
from radrm.host.clock import Clock, boot_id
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ('{"step": 5}', {"step": 5.0}),
        ('{"step": 5, "total": 10, "x": 1}', {"step": 5.0, "total": 10.0, "work_done": 0.5}),
        ('{"step": 5, "total": 10, "work_done": 0.4, "at": 7}',
         {"step": 5.0, "total": 10.0, "work_done": 0.4, "at": 7.0}),
        ('{"step": 5, "loss": NaN}', {"step": 5.0}),
        ('{"step": 5, "loss": -3, "epoch": true}', {"step": 5.0, "loss": -3.0}),
        ('{"step": Infinity}', None),
        ('{"step": 1e999}', None),
        ('{"step": ' + "9" * 4000 + "}", None),
        ('{"step": -1}', None),
        ('{"step": 11, "total": 10}', None),
        ('{"step": 1, "work_done": 1.5}', None),
        ('{"total": 10}', None),
        ('{"step": "5"}', None),
        ("[" * 4000, None),
        ("[5]", None),
        ("", None),
        ("\0", None),
    ],
)  # fmt: skip
def test_only_sound_numbers_count(text: str, numbers: dict[str, float] | None) -> None:
    assert parse(text.encode()) == numbers


def look(folder: Path) -> dict[str, object]:
    launch = {"uid": None, "environment": {FOLDER_VARIABLE: str(folder)}}
    return read_as_user(launch, looks_at_saved(launch))


def test_the_file_and_the_newest_time_are_read(tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_text('{"step": 3}')
    (tmp_path / "step-3").mkdir()
    (tmp_path / "step-3" / "model.pt").write_text("x")
    for draft in (".hidden", "model.tmp", "saved.json.12.34"):
        (tmp_path / draft).write_text("x")
        os.utime(tmp_path / draft, (9e9, 9e9))
    for path, when in (("saved.json", 100), ("step-3/model.pt", 300), ("step-3", 200)):
        os.utime(tmp_path / path, (when, when))
    assert look(tmp_path) == {
        **NOTHING, "saved": {"step": 3.0, "at": 100.0}, "newest_s": 300.0,
    }  # fmt: skip


def test_what_is_no_regular_small_file_is_no_proof(tmp_path: Path) -> None:
    assert look(tmp_path) == NOTHING and look(tmp_path / "missing") == NOTHING
    (tmp_path / "real.json").write_text('{"step": 3}')
    os.symlink(tmp_path / "real.json", tmp_path / "saved.json")
    assert look(tmp_path)["saved"] is None
    os.unlink(tmp_path / "saved.json")
    os.mkfifo(tmp_path / "saved.json")
    assert look(tmp_path)["saved"] is None
    os.unlink(tmp_path / "saved.json")
    (tmp_path / "saved.json").write_text('{"step": 3' + " " * 5000 + "}")
    assert look(tmp_path)["saved"] is None


def test_only_a_file_that_was_written_proves_a_save(tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_text("{}")
    (tmp_path / "step-3").mkdir()
    (tmp_path / "step-4").mkdir()
    (tmp_path / "step-4" / "scratch").write_text("x")
    (tmp_path / "step-4" / "scratch").unlink()
    os.mkfifo(tmp_path / "pipe")
    os.symlink("step-3", tmp_path / "latest")
    (tmp_path / "restored.pt").write_text("x")
    os.utime(tmp_path / "restored.pt", (9e9, 9e9))
    assert look(tmp_path) == NOTHING
    (tmp_path / "step-3" / "saved.json").write_text("{}")
    os.utime(tmp_path / "step-3" / "saved.json", (100, 100))
    assert look(tmp_path) == {**NOTHING, "newest_s": 100.0}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_it_is_read_as_the_user(tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_text(json.dumps({"step": 3}))
    os.chmod(tmp_path, 0o700)
    launch = {"uid": 65534, "gid": 65534, "user": "nobody"}
    launch["environment"] = {FOLDER_VARIABLE: str(tmp_path)}
    found = read_as_user(launch, looks_at_saved(launch))
    assert found == NOTHING, "nobody may not look into this folder"


def test_the_time_of_a_save_is_on_the_clock_of_the_daemon() -> None:
    now = {"boot_id": boot_id(), "boot_s": 1000.0, "wall_s": 5000.0}
    clock = Clock()
    found = saved_in({**now, "saved": {"step": 1.0, "at": 4990.0}, "newest_s": 4000.0}, clock)
    assert found.progress is not None and found.newest is not None
    assert (found.progress.at.boot_s, found.newest.boot_s) == (990.0, 0.0)
    later = saved_in({**now, "saved": {"step": 1.0, "at": 9e9}, "newest_s": None}, clock)
    assert later.progress.at.boot_s == 1000.0
    assert saved_in({**now, "saved": {"step": "1"}, "newest_s": None}, clock) == Saved()
    assert saved_in(now, clock) == Saved()


STUCK = """
import os, subprocess, sys, time
folder = sys.argv[1]
if os.path.basename(folder) == "stuck":
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)  # KILL does not reach it
    open(os.path.join(folder, "draft"), "w").write(str(child.pid))
    os.rename(os.path.join(folder, "draft"), os.path.join(folder, "pid"))
    time.sleep(60)
print('{"saved": null, "newest_s": 100.0, "boot_id": "b", "boot_s": 9.0, "wall_s": 109.0}')
"""


def test_a_folder_that_does_not_answer_delays_no_other_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child of a reading may be stuck in the kernel: it holds the pipe, and ignores KILL."""
    (tmp_path / "reader.py").write_text(STUCK)
    monkeypatch.setattr(evidence.saved, "__file__", str(tmp_path / "reader.py"))
    # As long as a busy machine takes to start the others' children.
    monkeypatch.setattr(evidence, "_ONE_READING_S", 6.0)
    monkeypatch.setattr(evidence, "_READING_S", 60.0)
    (tmp_path / "stuck").mkdir()
    folders = {0: tmp_path / "stuck", **{i: tmp_path / str(i) for i in range(1, 10)}}
    found = evidence.read_saved({i: Evidence(str(path), Clock()) for i, path in folders.items()})
    wait_until(lambda: (tmp_path / "stuck" / "pid").exists())
    child = int((tmp_path / "stuck" / "pid").read_text())
    os.kill(child, signal.SIGKILL)  # it has lived until now: nobody has waited for its end
    assert sorted(found) == list(range(1, 10))
