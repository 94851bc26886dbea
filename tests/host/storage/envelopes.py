"""Envelopes, and all that lie in a spool."""

from __future__ import annotations

import os

from radrm.host.storage.arrivals import Arrivals
from radrm.host.storage.spool import Arrival, Envelope, Spool
from radrm.host.storage.tickets import new_ticket


def envelope(**changes: object) -> Envelope:
    fields: dict[str, object] = {
        "ticket": new_ticket(),
        "file": "/home/ann/a.rad",
        "script": "#!/bin/sh\necho hi\n",
        "command": None,
        "options": {"gpus": "1"},
        "cwd": "/home/ann",
        "umask": 0o022,
        "environment": {"PATH": "/bin", "ODD": "\udcff"},
        "submitted_s": 1.5,
    }
    return Envelope(**{**fields, **changes})


def all_of(spool: Spool) -> list[Arrival]:
    """Everything in the spool that is opened, in the order in which it is served."""
    reader = arrivals(spool)
    found = []
    while (turn := reader.turns.take()) is not None:
        arrival = reader.read(turn[0])
        if arrival is not None:
            found.append(arrival)
    return found


def arrivals(spool: Spool) -> Arrivals:
    """The daemon's half, that has seen all that lies there."""
    found = Arrivals(spool.path, os.path.join(os.path.dirname(spool.path), "refused"))
    found.list_anew()
    while found.list_on():
        pass
    return found
