"""While no daemon runs, `status`, `logs` and `history` show the last state, and write nothing."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from radrm.client import last_state
from radrm.client.last_state import ReadingClient
from radrm.daemon.last_state import LastState, found_of
from radrm.errors import StoreError, Unreachable
from radrm.host.attempts import folder as attempts
from radrm.host.attempts.evidence import Evidence, Lost, Running, Void
from radrm.host.clock import Clock
from radrm.host.processes.identity import identify
from radrm.host.storage.paths import Paths, paths_for
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until


@pytest.fixture
def home(daemon: DaemonHome) -> DaemonHome:
    return daemon


def written(home: DaemonHome) -> list[str]:
    """What a daemon has written: the store, and the records of attempts."""
    state = home.folder / "home"
    files = [state / "store" / "radrm.sqlite", state / "store" / "radrm.sqlite-wal"]
    files += sorted((state / "attempts").rglob("*"))
    return [f"{p} {hashlib.sha256(p.read_bytes()).hexdigest()}" for p in files if p.is_file()]


@pytest.mark.daemon
def test_the_last_state_tells_what_has_ended_since(home: DaemonHome) -> None:
    until = "until [ -e {} ]; do sleep 0.05; done; echo done; exit {}"
    fails = home.submit("--name=fails", "--", "sh", "-c", until.format("go", 3))
    twice = '[ "$RADRM_ATTEMPT" = 1 ] || exec sleep 600; '
    again = home.submit("--gpus=0", "--retries=1", "--", "sh", "-c", twice + until.format("go", 4))
    runs = home.submit("--gpus=0", "--", "sh", "-c", "echo begun; " + until.format("later", 0))
    waits = home.submit("--gpus=2", "--gpu-memory=39G", "--", "true")
    for job in (fails, again, runs):
        home.wait_state(job, "RUNNING")
    home.kill()
    before = written(home)
    (home.work / "go").touch()
    wait_until(lambda: len(written(home)) == len(before) + 2, "two exit records")
    before = written(home)

    done = home.radrm("status", "--all", "--format={id} {state} {exit_code}", "--no-header")
    assert done.returncode == 0 and "radrm is not running; this is its last state" in done.stderr
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert rows[str(fails)] == "FAILED 3" and rows[str(again)].startswith("PENDING")
    assert rows[str(runs)].startswith("RUNNING") and rows[str(waits)].startswith("PENDING")
    (document,) = home.json("status", str(waits))
    assert "radrm is not running" in document["reason"]
    (document,) = home.json("status", str(fails))
    assert document["ran_s"] is not None, "its clock was faster than ours"
    assert home.radrm("logs", str(fails)).stdout == "done\n"
    assert [job["id"] for job in home.json("history")["jobs"]] == [fails]
    card = home.radrm("status", str(fails)).stdout
    assert "FAILED" in card and card.rstrip().endswith("last lines  done")
    last = LastState(paths_for(home.environment, os.getuid()), os.getuid())
    assert last.answer("page", {"own": True})["own"]["hints"] is True  # as on a terminal
    last.close()
    assert written(home) == before, "it was only read"

    home.start()  # and the next daemon decides the same
    assert home.job(fails)["state"] == "FAILED" and home.job(again)["state"] != "FAILED"
    (home.work / "later").touch()
    assert home.wait_end(runs)["state"] == "COMPLETED"
    home.stop()
    assert home.radrm("logs", "-f", str(runs)).stdout == "begun\ndone\n"
    database = Path(paths_for(home.environment, os.getuid()).database)
    whole = database.read_bytes()
    database.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    damaged = home.radrm("status")
    assert damaged.returncode == 1 and damaged.stderr.startswith("radrm: radrm is not running, and")
    assert damaged.stderr.count("\n") == 1
    database.write_bytes(whole)


def test_a_folder_is_read_without_a_claim(tmp_path: Path) -> None:
    evidence, clock = Evidence(str(tmp_path), Clock()), Clock()
    assert found_of(Evidence(str(tmp_path / "gone"), clock)) == Void() == found_of(evidence)
    lock = attempts.take_lock(str(tmp_path))
    assert found_of(evidence) == Running(None)
    me = identify(os.getpid())
    start = {"pid": 1, "start_ticks": 1, "runner_pid": me.pid, "runner_start_ticks": 1}
    attempts.write_record(str(tmp_path), attempts.START, {**start, **attempts.now()})
    assert isinstance(lost := found_of(evidence), Lost) and "its runner was killed" in lost.reason
    start["runner_start_ticks"] = me.start_ticks
    attempts.write_record(str(tmp_path), attempts.START, {**start, **attempts.now()})
    assert isinstance(runs := found_of(evidence), Running) and runs.started is not None
    os.close(lock)
    assert not (tmp_path / attempts.CLAIM).exists()


def test_a_store_is_read_as_its_owner_and_a_servers_before_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, own = (Paths(str(tmp_path / name), str(tmp_path / "run")) for name in ("all", "mine"))
    (tmp_path / "mine" / "store").mkdir(parents=True)
    Path(own.database).write_bytes(b"no database")
    client = ReadingClient((own, server))
    with pytest.raises(StoreError, match="radrm is not running, and"):
        client.ask("status", jobs=[])
    monkeypatch.setattr(last_state, "servers_own", lambda: server)
    with pytest.raises(Unreachable):  # the old state of a daemon of one's own would be wrong
        client.ask("status", jobs=[])
    monkeypatch.setattr(last_state, "servers_own", lambda: None)
    monkeypatch.setattr(last_state.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Unreachable):
        client.ask("status", jobs=[])
