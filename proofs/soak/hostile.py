"""What a user who means harm does: each act is a process of his own, for some seconds."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path

from proofs.fuzz.mutations import Mutator, as_bytes
from proofs.fuzz.targets.requests import REQUESTS
from proofs.soak.ground import Ground
from proofs.soak.users import envelope
from radrm.daemon.intake.envelopes import user_name
from radrm.host.storage.tickets import new_ticket

_MOST_CHARACTERS = 100_000

Act = Callable[[Ground, int, random.Random, float], None]
"""An act: the ground, the user that this process is already, chance, and until when it lasts."""


def never_reads(ground: Ground, uid: int, chance: random.Random, until_s: float) -> None:
    """Ask for much on many connections, and read no answer."""
    held = []
    for _ in range(80):
        with contextlib.suppress(OSError):
            client = _connect(ground)
            held.append(client)
            client.setblocking(False)
            client.send(b'{"op": "status", "all": true, "after": 0}\n' * 20)
    _rest(until_s)


def half_lines(ground: Ground, uid: int, chance: random.Random, until_s: float) -> None:
    """Begin requests on many connections, and never end them."""
    held = []
    for _ in range(80):
        with contextlib.suppress(OSError):
            client = _connect(ground)
            client.sendall(b'{"op": "status", "jobs": ["' + b"x" * chance.randint(0, 4000))
            held.append(client)
    _rest(until_s)


def floods(ground: Ground, uid: int, chance: random.Random, until_s: float) -> None:
    """Ask for the largest page as fast as it is answered, on four connections."""
    clients: list[socket.socket] = []
    with contextlib.suppress(OSError):
        clients += [_connect(ground) for _ in range(4)]
        while time.time() < until_s:
            for client in clients:
                client.sendall(b'{"op": "page", "all": true, "limit": 500}\n')
            for client in clients:
                while not client.recv(1 << 20).endswith(b"\n"):
                    pass


def garbage(ground: Ground, uid: int, chance: random.Random, until_s: float) -> None:
    """Send what no client sends: bytes, deep nests, too long lines, requests nearly right."""
    mutator = Mutator(chance, REQUESTS, _MOST_CHARACTERS)
    while time.time() < until_s:
        lines = (
            as_bytes(mutator.input()).replace(b"\n", b" "),
            chance.randbytes(chance.randint(1, 2000)).replace(b"\n", b""),
            b"[" * 100_000,
            b'{"op":' * 3000,
            b"x" * 600_000,
        )
        with contextlib.suppress(OSError), _connect(ground) as client:
            client.sendall(chance.choice(lines) + b"\n")
            client.recv(1 << 16)
        time.sleep(0.01)


def bad_envelopes(ground: Ground, uid: int, chance: random.Random, until_s: float) -> None:
    """Put files into the spool that are no envelopes, but have their names."""
    spool = Path(ground.paths.spool)
    known = new_ticket()
    good = envelope(ground, uid, known, "#!/bin/sh\n:\n").to_bytes()
    mutator = Mutator(chance, (json.loads(good),), _MOST_CHARACTERS)
    for _ in range(30):
        ticket = new_ticket()
        data = chance.choice(
            (
                as_bytes(mutator.input()).replace(known.encode(), ticket.encode()),
                good,
                good[: chance.randint(0, len(good))],
                chance.randbytes(chance.randint(0, 3000)),
                b"[" * 200_000,
            )
        )
        draft = spool / f".{ticket}"
        with contextlib.suppress(OSError):
            draft.write_bytes(data)
            if chance.random() < 0.1:
                os.truncate(draft, 9 << 20)  # too large, and without blocks on the disk
            draft.chmod(chance.choice((0o600, 0o600, 0o644, 0o400)))
            draft.rename(spool / f"{ticket}.job")


def links(ground: Ground, uid: int, chance: random.Random, until_s: float) -> None:
    """Put links, pipes and folders into the spool, under the names of envelopes."""
    spool, made = Path(ground.paths.spool), []
    own = ground.home_of(uid) / "secret"
    own.write_text("{}")
    own.chmod(0o600)
    for _ in range(10):
        for make in (
            lambda path: path.symlink_to("/etc/shadow"),
            lambda path: path.symlink_to(ground.paths.database),
            lambda path: path.hardlink_to(own),
            lambda path: path.mkdir(),
            os.mkfifo,
        ):
            path = spool / f"{new_ticket()}.job"
            with contextlib.suppress(OSError):
                make(path)
                made.append(path)
    _rest(until_s)
    for path in made:
        with contextlib.suppress(OSError):
            path.unlink() if path.is_symlink() or not path.is_dir() else path.rmdir()


def others_jobs(ground: Ground, uid: int, chance: random.Random, until_s: float) -> None:
    """Try to cancel, hold and change the jobs of others. What works is a finding at their end."""
    with contextlib.suppress(OSError, ValueError), _connect(ground) as client:
        lines = client.makefile("rb")
        client.sendall(b'{"op": "page", "limit": 100}\n')
        answer = json.loads(lines.readline())
        rows = answer["result"]["jobs"] if answer["ok"] else []  # refused: his floods go on
        jobs = [str(row["id"]) for row in rows if row["user"] != user_name(uid)]
        while jobs and time.time() < until_s:
            op = chance.choice(("cancel", "hold", "edit", "requeue", "migrate", "checkpoint"))
            words = {"op": op, "jobs": jobs, "options": {"priority": "-1000"}, "user": "root"}
            client.sendall(json.dumps(words).encode() + b"\n")
            lines.readline()
            time.sleep(0.2)


ACTS: dict[str, tuple[Act, float]] = {
    "connections that never read": (never_reads, 20.0),
    "half requests": (half_lines, 15.0),
    "a flood of requests": (floods, 4.0),
    "garbage on the socket": (garbage, 3.0),
    "garbage in the spool": (bad_envelopes, 3.0),
    "links in the spool": (links, 6.0),
    "commands about others' jobs": (others_jobs, 3.0),
}
"""Each act by the name that the report uses, and its longest time in seconds."""


def _connect(ground: Ground) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(5.0)
    client.connect(ground.paths.socket)
    return client


def _rest(until_s: float) -> None:
    time.sleep(max(0.0, until_s - time.time()))
