"""What `radrm/report.py` sends, and what it never does to the program that uses it."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm import report as module
from radrm.host.attempts.saved import looks_at_saved
from radrm.host.attempts.tails import read_as_user
from radrm.report import Reporter
from tests.paths import REPOSITORY
from tests.report.listener import Listener

FILE = REPOSITORY / "radrm" / "report.py"


def test_a_report_arrives(in_job: Listener) -> None:
    Reporter().progress(step=3, total=10, epoch=1, loss=0.25, work_done=0.3)
    assert in_job.taken() == [{"step": 3, "total": 10, "epoch": 1, "loss": 0.25, "work_done": 0.3}]


def test_outside_radrm_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RADRM_JOB_ID", "RADRM_PROGRESS", "RADRM_CHECKPOINT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    report = Reporter()
    report.progress(step=1, loss="no number")
    report.saved(step=1)
    assert not report.checkpoint_wanted() and not report.stop_wanted()
    assert not list(tmp_path.iterdir())


def test_fast_calls_are_merged_and_the_last_step_goes_out_at_once(in_job: Listener) -> None:
    report = Reporter()
    for step in range(1, 1001):
        report.progress(step=step, total=1000, loss=1 / step)
    found = in_job.taken()
    assert len(found) < 20
    assert found[0]["step"] == 1
    assert found[-1] == {"step": 1000, "total": 1000, "loss": 0.001}


def test_the_last_report_stays_for_the_next_daemon_if_none_runs(
    in_job: Listener, folder: Path
) -> None:
    report = Reporter()
    report.progress(step=3, total=10, loss=0.5)
    report.close()
    assert not list(folder.iterdir()), "a daemon has taken it"
    in_job.close()
    report.progress(step=9)
    report.close()
    (kept,) = folder.iterdir()
    launch = {"uid": None, "environment": dict(os.environ)}
    reported = read_as_user(launch, looks_at_saved(launch))["reported"]
    assert reported.pop("at") > 0
    assert reported == {"step": 9, "total": 10, "loss": 0.5, "work_done": 0.9}
    assert not kept.exists(), "an empty folder is removed"


def test_what_was_held_back_goes_out_at_the_end(in_job: Listener) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from report import Reporter\n"
        "report = Reporter()\n"
        "for i in range(100): report.progress(step=i, total=1000)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(FILE.parent)], timeout=60)
    assert done.returncode == 0
    assert in_job.taken()[-1]["step"] == 99


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"step": 1, "loss": float("nan")}, {"step": 1}),
        ({"step": 1, "loss": float("inf")}, {"step": 1}),
        ({"step": -1, "loss": 2}, {"loss": 2}),
        ({"step": 5, "total": 4}, {"step": 5}),
        ({"step": 1, "work_done": 1.5}, {"step": 1}),
        ({"step": 1, "loss": "low"}, {"step": 1}),
        ({"step": 1, "loss": object()}, {"step": 1}),
        ({"step": 1, "loss": -3.5}, {"step": 1, "loss": -3.5}),
    ],
)
def test_a_value_that_would_be_dropped_is_left_out(
    in_job: Listener, given: dict[str, object], sent: dict[str, float]
) -> None:
    Reporter().progress(**given)
    assert in_job.taken() == [sent]


def test_a_wrong_type_is_one_warning(in_job: Listener, capsys: pytest.CaptureFixture[str]) -> None:
    report = Reporter()
    report.progress(step=1, loss="low")
    report.progress(step=2, loss="high")
    assert capsys.readouterr().err.splitlines() == [
        "radrm report: loss must be a number, not str; it is left out"
    ]


@pytest.mark.parametrize("trouble", ["gone", "full", "too long"])
def test_a_receiver_in_trouble_harms_nobody(
    in_job: Listener, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trouble == "gone":
        os.unlink(in_job.path)
    if trouble == "too long":
        monkeypatch.setenv("RADRM_PROGRESS", "/tmp/" + "x" * 200)
    report = Reporter()
    for step in range(2000):
        report._left = 4.0  # no limit: the queue of the socket fills
        report.progress(step=step, total=5000)
    if trouble == "full":
        in_job.taken()
        report._left = 4.0
        report.progress(step=2000)
        assert in_job.taken()[-1]["step"] == 2000


def test_saved_is_on_the_disk_before_it_is_told(in_job: Listener, folder: Path) -> None:
    report = Reporter()
    report.progress(step=95, total=100, loss=0.5)
    report.saved(step=60)
    kept = json.loads((folder / "saved.json").read_text())
    assert kept.pop("at") > 1e9
    assert kept == {"step": 60, "total": 100, "work_done": 0.6}  # never the latest report
    assert in_job.taken()[-1]["saved"] == 60
    assert [path.name for path in folder.iterdir()] == ["saved.json"]


def test_saved_goes_out_whatever_the_limits(in_job: Listener) -> None:
    report = Reporter()
    for step in range(100):
        report.progress(step=step)
    in_job.taken()
    report.saved(step=99)
    assert in_job.taken()[-1]["saved"] == 99


def test_a_folder_that_cannot_be_written_is_told_and_the_hint_still_goes(
    in_job: Listener, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.rmdir()
    Reporter().saved(step=4)
    assert "cannot write" in capsys.readouterr().err
    assert in_job.taken() == [{"saved": 4}]


def test_saved_follows_no_link(in_job: Listener, folder: Path, tmp_path_factory) -> None:
    elsewhere = tmp_path_factory.mktemp("e") / "other"
    elsewhere.write_text("kept")
    (folder / "saved.json").symlink_to(elsewhere)
    Reporter().saved(step=4)
    assert elsewhere.read_text() == "kept"
    assert not (folder / "saved.json").is_symlink()


# ------------------------------------------------------------------ requests to save


@pytest.fixture
def usr1(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RADRM_CHECKPOINT_SIGNAL", str(int(signal.SIGUSR1)))
    before = signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_each_request_is_told_once(in_job: Listener, usr1: None) -> None:
    report, other = Reporter(), Reporter()
    assert not report.checkpoint_wanted()
    signal.raise_signal(signal.SIGUSR1)
    assert report.checkpoint_wanted() and not report.checkpoint_wanted()
    assert other.checkpoint_wanted()
    signal.raise_signal(signal.SIGUSR1)
    assert report.checkpoint_wanted()
    assert not report.stop_wanted()  # USR1: save, and go on


def test_the_programs_own_handler_stays(in_job: Listener, usr1: None) -> None:
    got = []
    signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))
    report = Reporter()
    signal.raise_signal(signal.SIGUSR1)
    assert got == [signal.SIGUSR1] and not report.checkpoint_wanted()


def test_term_means_save_and_leave(in_job: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADRM_CHECKPOINT_SIGNAL", str(int(signal.SIGTERM)))
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        monkeypatch.setattr(module, "_requests", 0)
        report = Reporter()
        assert not report.stop_wanted()
        signal.raise_signal(signal.SIGTERM)
        assert report.checkpoint_wanted() and report.stop_wanted()
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("text", ["", "9", "0", "99", "x", "-1", "١"])
def test_no_signal_is_no_error(
    in_job: Listener, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADRM_CHECKPOINT_SIGNAL", text)
    assert not Reporter().checkpoint_wanted()


def test_another_thread_can_make_one(in_job: Listener, usr1: None) -> None:
    made: list[Reporter] = []
    thread = threading.Thread(target=lambda: made.append(Reporter()))
    thread.start()
    thread.join()
    assert made and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


# ------------------------------------------------------------------ forks, threads, cost


def test_a_fork_while_another_thread_sends_blocks_nobody(in_job: Listener) -> None:
    report = Reporter()
    report._lock.acquire()  # as if another thread sent a report now
    report.progress(step=1)  # does not wait
    pid = os.fork()
    if pid == 0:
        try:
            report.progress(step=2)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    report._lock.release()
    assert in_job.taken() == [{"step": 2}]


def test_it_is_one_file_with_the_standard_library_alone() -> None:
    tree = ast.parse(FILE.read_text(), feature_version=(3, 8))
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    assert names <= set(sys.stdlib_module_names)
    assert "radrm" not in names
