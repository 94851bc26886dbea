"""Plays two users before a real system daemon, in the mount namespace of `test_limits.py`.

It becomes each user in a fork: the interpreter may lie where others cannot read. Prints what they
saw, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from radrm.cli.commands.submit import submit
from radrm.client.connection import Client
from radrm.errors import RadrmError
from radrm.host.simulated.client import DriverClient
from radrm.host.simulated.start_driver import SOCKET_NAME
from radrm.host.storage.spool import Envelope, Spool
from radrm.host.storage.tickets import new_ticket
from tests.waiting import wait_until

ADA, BOB = 61001, 61002
_LOADED = (resource,)
"""What `submit` imports: as a user it may find nothing any more."""


def mount(path: str) -> None:
    Path(path).mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)


def as_user(uid: int, work: Callable[[], Any]) -> Any:
    """What `work` returns where it runs as the user; of an error of ours, its line."""
    mine, its = os.pipe()
    if os.fork() == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.environ["HOME"] = "/tmp"
            try:
                answer = work()
            except RadrmError as error:
                answer = str(error)
            os.write(its, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(its)
    with os.fdopen(mine) as pipe:
        answer = json.loads(pipe.read())
    os.wait()
    return answer


def ask(op: str, **words: Any) -> Any:
    with Client() as client:
        return client.ask(op, **words)


def put(count: int, **options: str) -> list[str]:
    """Submissions of a client that asks nobody, as while no daemon runs."""
    made = [
        Envelope(
            ticket=new_ticket(),
            file=None,
            script=None,
            command=("sleep", "1000"),
            options={"collocation": "exclusive", "output": "/dev/null", **options},
            cwd="/tmp",
            umask=0o022,
            environment={"PATH": os.environ["PATH"]},
            submitted_s=time.time(),
        )
        for _ in range(count)
    ]
    Spool("/var/lib/radrm/spool").put(made)
    tickets = [each.ticket for each in made]
    ask("intake", jobs=tickets)
    return tickets


def main() -> None:
    mount("/var/lib/radrm")
    mount("/run/radrm")
    limits = ("gpus=2", "queued_jobs=3", "priority_max=10", "connections=3", "requests_per_s=1000")
    words = [sys.executable, "-m", "tests.unfixed", "daemon", "--gpus", "sim:4xA100-40GB"]
    for each in limits:
        words += ["--set", f"limits.{each}"]
    daemon = subprocess.Popen(words, stderr=Path("daemon.log").open("wb"))
    try:
        wait_until(lambda: os.path.exists("/run/radrm/radrm.sock") and ask("ping"), "the daemon")
        print(json.dumps(play()))
    finally:
        wait_until(all_ended, "the jobs' end")
        daemon.terminate()
        daemon.wait()
        driver = DriverClient(Path("/run/radrm", SOCKET_NAME))
        driver.ask("quit")
        driver.close()


def all_ended() -> bool:
    """Cancel all jobs. As they end, more of what waits in the spool becomes jobs."""
    for uid in (ADA, BOB):
        ask("cancel", user=str(uid))
    return not ask("page", limit=1)["total"] and not list(
        Path("/var/lib/radrm/spool").glob("*.job")
    )


def play() -> dict[str, Any]:
    def too_many() -> str:
        clients = [Client() for _ in range(4)]
        for client in clients:
            client.ask("ping")
        return "all were let in"

    found: dict[str, Any] = {"of root": ask("limits")["note"]}
    (ticket,) = as_user(ADA, lambda: put(1, priority="11"))
    (refused,) = ask("status", jobs=[ticket])
    found["failed"] = [refused["state"], refused["reason"]]
    as_user(ADA, lambda: put(7))
    as_user(BOB, lambda: put(1))
    rows = ask("status")
    found["states"] = sorted((row["user"], row["state"]) for row in rows)
    waits = [row["id"] for row in rows if row["state"] == "PENDING"]
    found["why"] = [each["message"] for each in ask("explain", jobs=[str(waits[0])])["reasons"]]
    found["limits"] = as_user(ADA, lambda: ask("limits"))
    found["other"] = as_user(BOB, lambda: ask("limits", user=str(ADA)))
    found["connections"] = as_user(ADA, too_many)
    found["submit"] = as_user(ADA, lambda: submit(["--", "true"]))
    job = next(str(row["id"]) for row in rows if row["user"] == str(BOB))
    found["edit"] = as_user(BOB, lambda: ask("edit", jobs=[job], options={"priority": "11"}))
    return found


main()
