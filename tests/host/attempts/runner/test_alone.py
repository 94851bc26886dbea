"""The runner imports little, holds no file open, survives a full disk, runs as the job's user."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radrm.host.attempts import folder as attempts
from radrm.host.attempts import runner
from tests.host.attempts.runner.attempt import COMMAND, Attempt
from tests.waiting import wait_until

# ------------------------------------------------------------------ lean, patient, alone


def test_only_light_imports_before_the_job(attempt: Attempt) -> None:
    process = attempt.start("-X", "importtime", argv=["true"])
    _, errors = process.communicate(timeout=60)
    imported = [line.split("|")[-1].strip() for line in errors.decode().splitlines()]
    before = imported[: imported.index("ctypes")] if "ctypes" in imported else imported
    assert "radrm.host.attempts.folder" in before
    heavy = {"typing", "dataclasses", "pathlib", "subprocess", "radrm.errors", "inspect"}
    heavy |= {"threading"}  # each fork would call its hook
    assert not heavy & set(imported)


def test_it_holds_nothing_of_who_started_it(attempt: Attempt) -> None:
    mine = os.open("/", os.O_RDONLY)
    os.set_inheritable(mine, True)
    attempt.prepare(argv=["sh", "-c", "echo >ready; exec sleep 1000"])
    command = [*COMMAND, str(attempt.folder)]
    with open(os.devnull, "r+b") as null:
        attempt.process = subprocess.Popen(
            command, stdin=null, stdout=null, stderr=null, close_fds=False, start_new_session=True
        )
    os.close(mine)
    attempt.wait_for("ready")
    held = Path(f"/proc/{attempt.process.pid}/fd")
    files = {os.devnull, str(attempt.folder / "lock")}

    def holds_only_its_own() -> bool:
        """It may just be importing a file."""
        targets = set()
        for fd in held.iterdir():
            with contextlib.suppress(FileNotFoundError):
                targets.add(os.readlink(fd))
        return {t for t in targets if not t.startswith(("pipe:", "socket:"))} == files

    wait_until(holds_only_its_own)
    assert os.readlink(f"/proc/{attempt.process.pid}/cwd") == "/"
    attempt.process.send_signal(signal.SIGUSR2)
    assert attempt.process.wait() == 0


def test_a_full_disk_delays_the_exit_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = attempts.take_lock(str(tmp_path))
    os.write(lock, runner._RESERVE)
    write = attempts.write_record

    def full_until_room_is_made(
        folder: str, name: str, fields: dict[str, Any], durably: bool
    ) -> None:
        if os.fstat(lock).st_size or len(json.dumps(fields)) > len(runner._RESERVE):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(folder, name, fields, durably)

    monkeypatch.setattr(attempts, "write_record", full_until_room_is_made)
    monkeypatch.setattr(runner.time, "sleep", lambda _: None)
    tail = "\u20ac" * 60000 + "CUDA out of memory"
    end = {"code": 7, "stderr_tail": tail, "stdout_tail": tail}
    assert attempts.write_exit(str(tmp_path), lock, end, lambda: False)
    fields, _ = attempts.read_record(str(tmp_path), attempts.EXIT)
    assert fields["code"] == 7
    assert fields["stderr_tail"].endswith("CUDA out of memory")
    os.close(lock)


@pytest.mark.parametrize(
    ("its", "told"),
    [
        ({"environment": {"PATH": os.environ["PATH"], "RADRM_GPUS": "1"}}, b"\nf\n"),
        ({"environment": {"PATH": os.environ["PATH"], "RADRM_GPUS": "0"}}, b"\n\n"),
        # Its step takes more than the first line, which comes with the start, for an error.
        (
            {
                "environment": {"PATH": os.environ["PATH"], "RADRM_GPUS": "1"},
                "step": {"pid": 1, "start_ticks": 1, "boot_id": "b"},
            },
            b"\n\n",
        ),
    ],
)
def test_what_it_tells(attempt: Attempt, its: dict[str, Any], told: bytes) -> None:
    said, _ = attempt.start(argv=["true"], **its).communicate(timeout=30)
    assert said == told


@pytest.mark.parametrize(("stored", "removed", "syncs"), [(0, 0, 2), (1, 0, 0), (0, 1, 0)])
def test_an_exit_record_is_synced_unless_the_end_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool, removed: bool, syncs: int
) -> None:
    def tell() -> bool:
        assert attempts.read_record(str(folder), attempts.EXIT)[0] is not None
        if removed:  # the daemon had stored it, and could not say so in time
            shutil.rmtree(folder)
        return stored

    folder, synced = tmp_path / "7", list[int]()
    folder.mkdir()
    lock = attempts.take_lock(str(folder))
    monkeypatch.setattr(os, "fsync", synced.append)
    assert attempts.write_exit(str(folder), lock, {"code": 0}, tell)
    assert len(synced) == syncs
    os.close(lock)


def test_a_disk_that_stays_full_loses_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    lock = attempts.take_lock(str(tmp_path))
    monkeypatch.setattr(attempts, "write_record", full)
    monkeypatch.setattr(attempts, "EXIT_RECORD_PATIENCE_S", -1.0)
    assert not attempts.write_exit(str(tmp_path), lock, {"code": 7}, lambda: None)
    os.close(lock)


# ------------------------------------------------------------------ another user


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def nobody() -> dict[str, Any]:
    entry = pwd.getpwnam("nobody")
    return {"uid": entry.pw_uid, "gid": entry.pw_gid, "user": "nobody"}


@as_root
def test_it_runs_and_writes_as_its_user(open_attempt: Attempt) -> None:
    end = open_attempt.run(script="#!/bin/sh\nid -u; id -g; id -G; cat $0 >copy", **nobody())
    user = nobody()
    assert end["code"] == 0
    gid = str(user["gid"])
    assert open_attempt.text("out").split() == [str(user["uid"]), gid, gid]
    for name in ("out", "err", "copy"):
        assert (open_attempt.cwd / name).stat().st_uid == user["uid"]


@as_root
@pytest.mark.parametrize(("uid", "why"), [(None, "is nobody now"), (64999, "not known here")])
def test_a_number_that_is_not_its_users_any_more(
    open_attempt: Attempt, uid: int | None, why: str
) -> None:
    gone = {**nobody(), "user": "who-left", **({} if uid is None else {"uid": uid})}
    end = open_attempt.run(argv=["id"], **gone)
    assert why in end["never_started"] and not (open_attempt.cwd / "out").exists()
    assert open_attempt.record("exit.json")["shell_code"] == (125 if uid is None else 75)


@as_root
def test_it_cannot_read_the_records(open_attempt: Attempt) -> None:
    tries = "for name in launch.json start.json claim; do cat $0/$name || touch $0/$name.mine; done"
    end = open_attempt.run(argv=["sh", "-c", tries, str(open_attempt.folder)], **nobody())
    assert end["code"] == 1, end
    assert open_attempt.text("err").count("Permission denied") == 6


@as_root
@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.touch(mode=0o600)])
def test_it_cannot_log_where_only_root_may(
    open_attempt: Attempt, make: Callable[[Path], None]
) -> None:
    private = open_attempt.cwd.parent / "log"
    make(private)
    end = open_attempt.run(argv=["true"], stdout=str(private), **nobody())
    assert f"cannot write the log {private}: Permission denied" in end["never_started"]
    assert not private.exists() or private.read_bytes() == b""


@as_root
def test_a_folder_that_only_root_may_enter(open_attempt: Attempt) -> None:
    open_attempt.folder.parent.chmod(0o700)
    end = open_attempt.run(script="true", **nobody())
    assert "user nobody may not read the copy of the script" in end["never_started"]
