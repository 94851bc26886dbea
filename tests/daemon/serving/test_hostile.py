"""What anybody may put into the spool or say to the daemon: it harms nobody else."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from radrm.errors import RadrmError, UsageError
from radrm.host.storage.spool import Envelope, Spool
from radrm.host.storage.tickets import new_ticket
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def daemon(shared_daemon: DaemonHome) -> DaemonHome:
    """One for all: each test ends by showing that it still serves."""
    return shared_daemon


def envelope(daemon: DaemonHome, **changes: Any) -> Envelope:
    fields: dict[str, Any] = {
        "ticket": new_ticket(),
        "file": None,
        "script": None,
        "command": ("true",),
        "options": {"gpus": "0"},
        "cwd": str(daemon.work),
        "umask": 0o022,
        "environment": {"PATH": os.environ["PATH"]},
        "submitted_s": 0.0,
    }
    return Envelope(**{**fields, **changes})


def spool(daemon: DaemonHome) -> Path:
    return daemon.folder / "home" / "spool"


def known(daemon: DaemonHome, ticket: str) -> dict[str, Any] | None:
    found: list[dict[str, Any] | None] = daemon.ask("intake", jobs=[ticket])
    return found[0]


def still_serves(daemon: DaemonHome) -> None:
    job = daemon.submit("--gpus=0", "--", "true")
    assert daemon.wait_end(job)["state"] == "COMPLETED"
    assert daemon.process.poll() is None


SURROGATES: list[dict[str, Any]] = [  # JSON can spell what no system call can be given
    {"script": "#!/bin/sh\n# \ud800\n:", "command": None},
    {"script": "", "command": None, "file": "/x/\ud800.rad"},
    {"command": ["\ud800"]},
    {"environment": {"A": "\ud800"}},
]


def test_what_is_no_envelope_is_set_aside(daemon: DaemonHome) -> None:
    sound = json.loads(envelope(daemon).to_bytes())
    documents = [sound | changes for changes in SURROGATES]
    documents += [
        {key: value for key, value in sound.items() if key != field}
        for field in ("script", "command", "options")
    ]
    paths = []
    for document in documents:
        document["ticket"] = new_ticket()
        path = spool(daemon) / f"{document['ticket']}.job"
        path.with_name(".x").write_text(json.dumps(document))
        path.with_name(".x").chmod(0o600)
        paths.append(path.with_name(".x").rename(path))
    wait_until(lambda: not any(path.exists() for path in paths), "them to be set aside")
    still_serves(daemon)


def test_what_is_not_radrms_stays_in_the_spool(daemon: DaemonHome) -> None:
    """Whatever its name and its kind: the daemon moves and removes nothing of others."""
    place = spool(daemon)
    (place / "a folder.job" / "inside").mkdir(parents=True)
    (place / f"{new_ticket()}.job").mkdir()
    (place / f"{new_ticket()}.job").symlink_to(daemon.work)
    os.mkfifo(place / f"{new_ticket()}.job")
    (place / ".y").touch(0o600)
    (place / ".y").rename(place / ("\U0001f600" * 62))
    before = sorted(os.listdir(place))
    for name in before:
        known(daemon, name.removesuffix(".job"))  # has it look at just these
    still_serves(daemon)
    assert sorted(os.listdir(place)) == before
    for name in before:
        path = place / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def test_another_array_under_a_ticket_that_was_used(daemon: DaemonHome) -> None:
    first = envelope(daemon, options={"gpus": "0", "array": "5-6"})
    Spool(str(spool(daemon))).put([first])
    wait_until(lambda: known(daemon, first.ticket), "the array")
    second = envelope(daemon, ticket=first.ticket, options={"gpus": "0", "array": "0-9"})
    Spool(str(spool(daemon))).put([second])
    wait_until(lambda: not list(spool(daemon).glob("*.job")), "it to be dropped")
    assert len(daemon.ask("status", jobs=[first.ticket])) == 2
    still_serves(daemon)


def test_a_request_may_name_anything(daemon: DaemonHome) -> None:
    words = ("\ud800", "\xff", "", "*" * 300, "[", "12_", "_3", "9" * 40)
    for op in ("cancel", "hold", "requeue", "intake", "status", "explain", "logs"):
        for word in words:
            try:
                daemon.ask(op, jobs=[word])
            except RadrmError as error:
                assert "\n" not in str(error)
    still_serves(daemon)


@pytest.mark.parametrize("words", [{"fingerprint": "\ud800"}, {"name": "\ud800"}])
def test_half_a_character_has_no_runs(daemon: DaemonHome, words: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="the request takes a"):
        daemon.ask("runs", **words)


def test_a_job_cannot_write_the_daemons_log(daemon: DaemonHome) -> None:
    forged = "2026-01-01 00:00:00 INFO job 1 COMPLETED"
    mine = envelope(daemon, script="", command=None, file=f"/x/a\n{forged}\x1b[31m.rad")
    Spool(str(spool(daemon))).put([mine])
    job = wait_until(lambda: known(daemon, mine.ticket), "it")
    daemon.wait_end(job["id"])
    assert "\x1b" not in daemon.said()
    assert not any(line.startswith("2026-01-01") for line in daemon.said().splitlines())


def test_a_follower_is_run_again_by_the_rules(daemon: DaemonHome) -> None:
    """It was refused, so it never ran: what it follows is looked at anew."""
    first = daemon.submit("--gpus=0", "--", "sh", "-c", "test -e go")
    follower = daemon.submit("--gpus=0", f"--after={first}:any", "--", "true")
    daemon.wait_end(follower)
    strict = daemon.radrm("submit", "--json", "--gpus=0", f"--after={first}", "--", "true")
    refused = json.loads(strict.stdout)[0]["id"]
    (told,) = daemon.ask("requeue", jobs=[str(refused)])
    assert "never ran and cannot" in told["error"]
    (daemon.work / "go").touch()
    daemon.ask("requeue", jobs=[str(first)])
    daemon.wait_state(first, "COMPLETED")
    (told,) = daemon.ask("requeue", jobs=[str(refused)])
    assert told["error"] is None
    assert daemon.wait_end(refused)["state"] == "COMPLETED"


def test_of_a_running_job_the_logs_stay_where_they_are(daemon: DaemonHome) -> None:
    job = daemon.submit("--gpus=0", "--output=%x.log", "--name=aaa", "--", "sleep", "100")
    daemon.wait_state(job, "RUNNING")
    for change in ({"name": "bbb"}, {"output": "other.log"}, {"chdir": "/"}):
        (told,) = daemon.ask("edit", jobs=[str(job)], options=change)
        assert "only while it waits" in told["error"]
    daemon.ask("cancel", jobs=[str(job)])
