"""Which names in a watched folder mean what.

train.rad             a job file
.TICKET.train.rad     the same, claimed by a look: its envelope will have this ticket
done/TICKET.train.rad       it is a job
refused/TICKET.train.rad    it is none, and TICKET.train.rad.txt says why
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
"""Bytes of a name that are kept: a ticket and a suffix have to fit as well."""


def is_job_file(name: str) -> bool:
    return name.endswith(SUFFIX) and not name.startswith(".")


def printable(name: str) -> bool:
    """False for a name that could not be shown as it is: control characters, no UTF-8."""
    return "\ufffd" not in plain(name)


def kept(name: str) -> str:
    """The name as it stands behind a ticket: printable, and not too long."""
    stem = plain(name).removesuffix(SUFFIX).replace("/", "\ufffd")
    return stem.encode()[:_LONGEST].decode("utf-8", "ignore") + SUFFIX


def claim_of(ticket: str, name: str) -> str:
    return f".{ticket}.{kept(name)}"


def claimed(name: str) -> tuple[str, str] | None:
    """The ticket and the file's name, for the name of a claimed file."""
    ticket, rest = name[1 : LENGTH + 1], name[LENGTH + 2 :]
    ours = name[:1] == "." and name[LENGTH + 1 : LENGTH + 2] == "." and is_ticket(ticket)
    return (ticket, rest) if ours and is_job_file(rest) else None


def reserved(name: str, system: bool) -> bool:
    """True for names in a spool that are watched folders' business and no envelopes'. The spool
    of a user's own daemon is a watched folder itself; a system's has one for each user."""
    if system:
        return name == USERS
    return name in (DONE, REFUSED) or is_job_file(name) or claimed(name) is not None
