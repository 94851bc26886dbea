"""The names in a watched folder and their meaning.

train.rad                   a job file
.TICKET.train.rad           a job file that a look has claimed: its envelope has this ticket
done/TICKET.train.rad       a submitted job file
refused/TICKET.train.rad    a refused job file; TICKET.train.rad.txt holds the reason
"""

from __future__ import annotations

from radrm.errors import plain
from radrm.host.storage.tickets import LENGTH, is_ticket

SUFFIX = ".rad"
DONE, REFUSED = "done", "refused"
USERS = "users"
"""The folder in a system daemon's spool that holds a watched folder for each user."""
REASON = ".txt"
_LONGEST = 180
"""Bytes of a name that are kept, so that the ticket and a suffix also fit into 255 bytes."""


def is_job_file(name: str) -> bool:
    """True for the name of a job file that no look has claimed."""
    return name.endswith(SUFFIX) and not name.startswith(".")


def printable(name: str) -> bool:
    """False for a name with control characters or bytes that are not UTF-8."""
    return "\ufffd" not in plain(name)


def kept(name: str) -> str:
    """The name as it follows a ticket: printable, with limited length."""
    stem = plain(name).removesuffix(SUFFIX).replace("/", "\ufffd")
    return stem.encode()[:_LONGEST].decode("utf-8", "ignore") + SUFFIX


def claim_of(ticket: str, name: str) -> str:
    """The name of a claimed file."""
    return f".{ticket}.{kept(name)}"


def claimed(name: str) -> tuple[str, str] | None:
    """The ticket and the file's own name in the name of a claimed file; None for other names."""
    ticket, rest = name[1 : LENGTH + 1], name[LENGTH + 2 :]
    ours = name[:1] == "." and name[LENGTH + 1 : LENGTH + 2] == "." and is_ticket(ticket)
    return (ticket, rest) if ours and is_job_file(rest) else None


def reserved(name: str, system: bool) -> bool:
    """True for names in a spool that belong to watched folders and not to envelopes.

    The spool of a user's own daemon is a watched folder itself; a system's holds `users`.
    """
    if system:
        return name == USERS
    return name in (DONE, REFUSED) or is_job_file(name) or claimed(name) is not None
