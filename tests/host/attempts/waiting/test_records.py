"""The records of an attempt that a step runs: a user can write anything there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radrm.host.attempts import folder as attempts
from radrm.host.attempts import waiting
from radrm.host.attempts.evidence import Ended, Void
from radrm.host.attempts.launcher import Launcher
from radrm.host.attempts.waiting import StepEvidence
from radrm.host.clock import Clock
from radrm.host.processes.identity import Identity, identify
from tests.standins.mounted import mounted, requires_mounts
from tests.waiting import wait_until

ENDED = {"code": 3, "signal": None, "never_started": None, "stderr_tail": None, "stdout_tail": None}


def me() -> Identity:
    found = identify(os.getpid())
    assert found is not None
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of an attempt whose step is this process."""
    waiting.make(str(tmp_path), {"uid": None, "gid": None, "token": "t" * 8})
    return tmp_path / attempts.STEP


@pytest.fixture
def evidence(folder: Path) -> StepEvidence:
    return StepEvidence(str(folder.parent), Clock(), os.getuid(), me())


@pytest.fixture
def child() -> Iterator[Identity]:
    """A child of this process, as a runner is the step's."""
    process = subprocess.Popen(["sleep", "60"])
    found = identify(process.pid)
    assert found is not None
    yield found
    process.kill()
    process.wait()


def write(folder: Path, name: str, **fields: Any) -> None:
    attempts.write_record(str(folder), name, {**fields, **attempts.now()})


def write_start(folder: Path, who: Identity) -> None:
    pids = {"pid": who.pid, "start_ticks": who.start_ticks}
    write(folder, attempts.START, **pids, runner_pid=who.pid, runner_start_ticks=who.start_ticks)


def test_an_end_counts_once_the_step_has_said_its_last_word(
    folder: Path, evidence: StepEvidence
) -> None:
    write(folder, attempts.EXIT, **ENDED)
    assert evidence.ended() is None and not evidence.is_over
    write(folder, attempts.OVER, gone=None, why=None)
    found = evidence.ended()
    assert isinstance(found, Ended) and (found.exit.code, found.outer) == (3, None)


@pytest.mark.parametrize(
    ("gone", "reason"), [("timeout", "timeout"), ("preempted", "preempted"), ("anything", None)]
)
def test_the_last_word_may_say_why_the_slurm_job_ends(
    folder: Path, evidence: StepEvidence, gone: str, reason: str | None
) -> None:
    write(folder, attempts.EXIT, **ENDED)
    write(folder, attempts.OVER, gone=gone, why="because\x1b[31m" + "x" * 500)
    found = evidence.ended()
    assert found is not None
    assert (found.outer.reason if found.outer else None) == reason
    if found.outer is not None:
        assert found.outer.why.isprintable() and len(found.outer.why) == 200


def test_without_its_step_an_attempt_is_over(folder: Path, child: Identity) -> None:
    evidence = StepEvidence(str(folder.parent), Clock(), os.getuid(), child)
    assert not evidence.is_over
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert evidence.is_over


def test_only_a_child_of_the_step_is_the_runner(
    folder: Path, evidence: StepEvidence, child: Identity
) -> None:
    write_start(folder, child)
    assert evidence.runner_now() == child == evidence.runner()
    grandparent = identify(os.getppid())
    assert grandparent is not None
    write_start(folder, grandparent)
    assert evidence.runner_now() is None
    write_start(folder, Identity(child.pid, child.start_ticks + 1, child.boot_id))
    assert evidence.runner_now() is None


def test_a_process_of_another_user_is_neither_runner_nor_job(folder: Path, child: Identity) -> None:
    write_start(folder, child)
    other = StepEvidence(str(folder.parent), Clock(), os.getuid() + 1, me())
    assert other.runner_now() is None and other.job() is None


def test_a_claim_that_the_daemon_takes_is_void_for_ever(
    folder: Path, evidence: StepEvidence, child: Identity
) -> None:
    assert isinstance(evidence.runner(), Void)
    assert not attempts.Claim.take(str(folder), attempts.RUNNER, child)


def test_a_runner_with_the_claim_keeps_it(
    folder: Path, evidence: StepEvidence, child: Identity
) -> None:
    assert attempts.Claim.take(str(folder), attempts.RUNNER, child)
    assert not evidence.stand_down() and not evidence.is_over
    assert evidence.runner() == child


def test_a_step_that_has_not_begun_stands_down(folder: Path, evidence: StepEvidence) -> None:
    assert evidence.stand_down() and evidence.is_over and evidence.stand_down()
    assert not evidence.lost("it was stopped").began


@pytest.mark.parametrize("name", [attempts.START, attempts.EXIT, attempts.OVER, attempts.CLAIM])
def test_links_pipes_and_long_files_are_no_records(
    folder: Path, evidence: StepEvidence, name: str
) -> None:
    place = folder / name
    for spoil in (
        lambda: place.symlink_to("/etc/passwd"),
        lambda: os.mkfifo(place),
        lambda: place.write_bytes(b'{"version": 1}' + b" " * (3 << 20)),
        lambda: place.mkdir(),
    ):
        spoil()
        assert evidence.started() is None and evidence.runner_now() is None
        assert evidence.lost("x").outer is None
        found, reason = evidence._read(name)
        assert found is None and reason is not None
        place.rmdir() if place.is_dir() and not place.is_symlink() else place.unlink()


def test_only_what_radrm_has_written_is_removed(folder: Path) -> None:
    (folder / "mine").write_text("x")
    with pytest.raises(OSError, match="not empty"):
        waiting.remove(str(folder.parent))
    assert [each.name for each in folder.iterdir()] == ["mine"]
    (folder / "mine").unlink()
    waiting.remove(str(folder.parent))
    assert not folder.exists()
    waiting.remove(str(folder.parent))  # an attempt that no step ran


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / attempts.LAUNCH).write_text(json.dumps({}))
    own = tmp_path / "7"
    own.mkdir()
    (own / attempts.STEP).symlink_to(elsewhere)
    with pytest.raises(OSError):
        waiting.remove(str(own))
    assert (elsewhere / attempts.LAUNCH).exists()


@pytest.mark.parametrize("silent", [True, False])
def test_nobody_waits_for_what_its_user_mounts_over_it(
    folder: Path, evidence: StepEvidence, silent: bool
) -> None:
    requires_mounts()
    with mounted(folder, silent):
        assert evidence.is_there and not evidence.is_over
        assert (evidence.started(), evidence.ended(), evidence.job()) == (None, None, None)
        assert "a file system is mounted there" in evidence.lost("it has gone").reason
        with pytest.raises(OSError):
            evidence.stand_down()
        with pytest.raises(OSError):
            waiting.remove(str(folder.parent))
        waiting.clear_rest(str(folder.parent))
    for name in (attempts.EXIT, attempts.OVER):
        (folder / name).touch()
        with mounted(folder / name, silent):
            assert evidence.ended() is None
            with pytest.raises(OSError):
                waiting.remove(str(folder.parent))
        (folder / name).unlink(missing_ok=True)
    waiting.remove(str(folder.parent))
    assert not evidence.is_there


def test_a_launcher_forgets_an_attempt_with_what_its_steps_user_has_left(tmp_path: Path) -> None:
    above = tmp_path / "attempts" / "7"
    above.mkdir(parents=True)
    waiting.make(str(above), {"uid": None, "gid": None, "token": "t" * 8})
    (above / attempts.STEP / "below").mkdir()
    (above / attempts.STEP / "below" / "big").write_text("x")
    launcher = Launcher(tmp_path, Clock())
    launcher.forget(7)
    wait_until(lambda: launcher.serials() == [], "its folder to go")
    launcher.close()
