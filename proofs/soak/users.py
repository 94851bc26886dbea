"""Processes that are a user of the soak: to submit, to give commands, and to do harm."""

from __future__ import annotations

import json
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from proofs.soak.ground import Ground
from proofs.soak.jobs import Kind, script_of
from radrm.client.connection import Client
from radrm.errors import RadrmError
from radrm.host.storage.spool import Envelope, Spool
from radrm.host.storage.tickets import new_ticket


def spawn(uid: int, work: Callable[[], object]) -> int:
    """Fork a process that becomes the user and does `work`. Returns its pid."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        become(uid)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def answer_of(uid: int, work: Callable[[], Any]) -> Any:
    """Do `work` as the user, and return its JSON. Raises `RuntimeError` if that fails."""
    mine, its = os.pipe()

    def tell() -> None:
        os.close(mine)
        with os.fdopen(its, "w") as pipe:
            json.dump(work(), pipe)

    pid = spawn(uid, tell)
    os.close(its)
    with os.fdopen(mine) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError(f"the work as user {uid} failed with status {status}")
    return json.loads(text)


def become(uid: int) -> None:
    if os.getuid() != uid:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)


def envelope(ground: Ground, uid: int, ticket: str, script: str) -> Envelope:
    """The envelope of a job file, as `radrm submit` writes it."""
    return Envelope(
        ticket=ticket,
        file=None,
        script=script,
        command=None,
        options={},
        cwd=str(ground.home_of(uid) / "work"),
        umask=0o022,
        environment=ground.job_environment(uid),
        submitted_s=time.time(),
    )


def submit(
    ground: Ground, uid: int, kinds: Sequence[Kind], seed: int
) -> list[tuple[str, str, float]]:
    """Submit jobs of these kinds as this user, one by one: ticket, kind and time of each.

    A refusal (full disk) ends the batch: what was not acknowledged is not returned.
    """

    def work() -> list[tuple[str, str, float]]:
        chance = random.Random(seed)
        spool = Spool(ground.paths.spool)
        taken = []
        for kind in kinds:
            ticket = new_ticket()
            folder = ground.home_of(uid) / "work" / ticket
            if "{folder}" in kind.options:
                folder.mkdir()
            script = script_of(kind, folder, ticket, chance)
            began = time.time()
            try:
                spool.put([envelope(ground, uid, ticket, script)])
            except RadrmError:
                break
            taken.append((ticket, kind.name, began))
        return taken

    return [(ticket, kind, at) for ticket, kind, at in answer_of(uid, work)]


def command(ground: Ground, uid: int, op: str, jobs: list[str]) -> list[dict[str, Any]]:
    """Give a command as this user. Returns the daemon's results; none if it does not answer."""

    def work() -> Any:
        try:
            with Client((ground.paths,)) as client:
                return client.ask(op, jobs=jobs)
        except RadrmError:
            return []

    found: list[dict[str, Any]] = answer_of(uid, work)
    return found
