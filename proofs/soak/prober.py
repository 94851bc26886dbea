"""A user who asks and submits all the time, and writes down how long each answer took.

It is a process of its own, so that what the soak does meanwhile costs none of its time. Its file
has a line for each question: when it was asked (seconds since the epoch), what, and the seconds
until the answer, or `-`. Of a submission it writes the ticket; the witness tells the start.
`machine` is the time of a shell that does nothing: how busy the machine is without radrm.
"""

from __future__ import annotations

import subprocess
import time
from typing import IO

from proofs.soak.ground import Ground
from proofs.soak.jobs import PROBE, script_of_probe
from proofs.soak.users import envelope
from radrm.client.connection import Client
from radrm.errors import RadrmError
from radrm.host.storage.spool import Spool
from radrm.host.storage.tickets import new_ticket

EVERY_S = 1.0
MACHINE = "machine"
SUBMIT_EVERY = 3
"""One submission in so many rounds."""


def probe(ground: Ground, uid: int, until_s: float) -> None:
    """Ask until this time, as the user that this process is already."""
    spool, client = Spool(ground.paths.spool), Client((ground.paths,))
    with (ground.home_of(uid) / "probes").open("a", buffering=1) as file:
        turn = 0
        while time.time() < until_s:
            _time_shell(file)
            _ask(client, file, "ping")
            _ask(client, file, "page", limit=50)
            if turn % SUBMIT_EVERY == 0:
                ticket = new_ticket()
                at = time.time()
                try:
                    spool.put([envelope(ground, uid, ticket, script_of_probe(ticket))])
                except RadrmError:
                    file.write(f"{at:.3f} {PROBE} - {ticket}\n")
                else:
                    file.write(f"{at:.3f} {PROBE} {time.time() - at:.4f} {ticket}\n")
                    _ask(client, file, "intake", jobs=[ticket])
            turn += 1
            time.sleep(EVERY_S)
        client.close()


def _time_shell(file: IO[str]) -> None:
    at = time.time()
    subprocess.run(["bash", "-c", ":"], check=True)
    file.write(f"{at:.3f} {MACHINE} {time.time() - at:.4f}\n")


def _ask(client: Client, file: IO[str], op: str, **words: object) -> None:
    at = time.time()
    try:
        client.ask(op, **words)
    except RadrmError:
        file.write(f"{at:.3f} {op} - {time.time() - at:.4f}\n")
    else:
        file.write(f"{at:.3f} {op} {time.time() - at:.4f}\n")
