"""The folder that all pilots of a user share, in the user's home.

    spool/TICKET.job             waits for a pilot
    pilots/ID/claimed/TICKET.job claimed by the pilot in Slurm job ID, which has not ended it yet
    pilots/ID/cancel/TICKET      the user wants it cancelled
    pilots/ID/state.json         what that pilot has last seen of its jobs
    pilots/ID/checkpoints/       RADRM_CHECKPOINT_DIR of its jobs
    log/ID.out                   what it prints

Theory of operation. An envelope is claimed and given back by one rename, which is atomic on network
file systems, too: of two pilots one gets it. A server of NFS can lose its answer, so a pilot
believes only what it finds in its own folder afterwards. An envelope is in one place at any time,
and is removed only when its jobs have ended.

All of it is the user's, and so are all processes that use it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from radrm.client.text import FINAL
from radrm.errors import RadrmError, StoreError
from radrm.host.folders import OpenFolder
from radrm.host.storage.files import fsync_folder, write_durably
from radrm.host.storage.spool import ENVELOPE, SUFFIX, Envelope, kind_of, read_envelope_file
from radrm.host.storage.submission import job_file_in
from radrm.host.storage.tickets import is_ticket
from radrm.host.wall import wall_s

MOST_NAMES = 10_000
MOST_KEPT = 1000
"""Ended jobs that the state of a pilot names."""
_MOST_STATE = 16 << 20
_KEPT_S = 7 * 86400.0
"""How long the state of an ended pilot is kept."""
_STATE = "state.json"

Row = dict[str, Any]


def shared_root(environ: Mapping[str, str]) -> str:
    """Return the folder of a user's pilots. Raises `StoreError` without a home folder."""
    data = environ.get("XDG_DATA_HOME", "")
    if not data.startswith("/"):
        home = environ.get("HOME", "")
        if not home.startswith("/"):
            raise StoreError("there is no home folder for what pilots share; set HOME")
        data = f"{home}/.local/share"
    return f"{os.path.normpath(data)}/radrm/pilots"


class Shared:
    """The folder `root`. All methods raise `OSError`, where a disk does not do its work."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.spool = f"{root}/spool"
        self.logs = f"{root}/log"

    def make(self) -> None:
        """Make what is missing. Raises `StoreError`."""
        try:
            for path in (self.spool, self.logs, f"{self.root}/pilots"):
                os.makedirs(path, mode=0o700, exist_ok=True)
            owner = os.stat(self.spool).st_uid
        except OSError as error:
            raise StoreError(f"cannot make the folder {self.root}: {error.strerror}") from None
        if owner != os.geteuid():
            raise StoreError(f"{self.spool} belongs to user {owner}; set XDG_DATA_HOME")

    def of(self, pilot: str) -> str:
        """Return the folder of a pilot."""
        return f"{self.root}/pilots/{pilot}"

    def make_pilot(self, pilot: str) -> None:
        """Make the folder of a pilot."""
        for name in ("claimed", "cancel", "checkpoints"):
            os.makedirs(f"{self.of(pilot)}/{name}", mode=0o700, exist_ok=True)

    def pilots(self) -> list[str]:
        """Return all pilots that have a folder, by the number of their Slurm job."""
        names = _names(f"{self.root}/pilots")
        return sorted((n for n in names if n.isascii() and n.isdigit()), key=int)

    def tidy(self, pilot: str) -> None:
        """Remove the folder of a pilot that ended a week ago. What its jobs have saved, stays."""
        folder = self.of(pilot)
        try:
            old = os.stat(f"{folder}/{_STATE}").st_mtime < wall_s() - _KEPT_S
        except FileNotFoundError:
            return
        if not old or self.claimed(pilot):
            return
        for ticket in self.asked_cancels(pilot):
            self.cancelled(ticket, pilot)
        try:
            for name in ("checkpoints", "claimed", "cancel"):
                os.rmdir(f"{folder}/{name}")
            os.unlink(f"{folder}/{_STATE}")
            os.rmdir(folder)
        except OSError:
            pass  # something is left in it

    # ------------------------------------------------------------- envelopes

    def waiting(self) -> list[str]:
        """Return the tickets that wait for a pilot, oldest first."""
        return _tickets(self.spool)

    def claimed(self, pilot: str) -> list[str]:
        """Return the tickets that a pilot has claimed."""
        return _tickets(f"{self.of(pilot)}/claimed")

    def read(self, ticket: str, pilot: str | None = None) -> Envelope | None:
        """Return an envelope that waits, or that a pilot has claimed; None if it is none."""
        with OpenFolder(self._folder(pilot)) as folder:
            found = read_envelope_file(folder, ticket + SUFFIX)
        return None if found is None or found.uid != os.geteuid() else found.envelope

    def claim(self, ticket: str, pilot: str) -> bool:
        """Take an envelope that waits; return whether the pilot has it now."""
        self._move(ticket, None, pilot)
        return os.path.exists(self._path(ticket, pilot))

    def give_back(self, ticket: str, pilot: str, rest: Envelope | None = None) -> None:
        """Let an envelope wait for another pilot. `rest`: what is left of it to do."""
        if rest is not None:
            write_durably(self._path(ticket, pilot), rest.to_bytes())
        self._move(ticket, pilot, None)

    def forget(self, ticket: str, pilot: str | None = None) -> bool:
        """Remove an envelope: its jobs have ended, or the user has cancelled it while it waited.
        Returns whether it was there."""
        return _unlink(self._path(ticket, pilot))

    def _folder(self, pilot: str | None) -> str:
        return self.spool if pilot is None else f"{self.of(pilot)}/claimed"

    def _path(self, ticket: str, pilot: str | None) -> str:
        return f"{self._folder(pilot)}/{ticket}{SUFFIX}"

    def _move(self, ticket: str, source: str | None, target: str | None) -> None:
        try:
            os.rename(self._path(ticket, source), self._path(ticket, target))
        except FileNotFoundError:
            return  # another was first, or the answer to a rename that was done is lost
        fsync_folder(self._folder(target))
        fsync_folder(self._folder(source))

    # ------------------------------------------------------------- what pilots say

    def ask_cancel(self, ticket: str, pilot: str) -> None:
        """Ask a pilot to cancel the jobs of a ticket."""
        write_durably(f"{self.of(pilot)}/cancel/{ticket}", b"")

    def asked_cancels(self, pilot: str) -> list[str]:
        """Return the tickets whose jobs a pilot is asked to cancel."""
        return [name for name in _names(f"{self.of(pilot)}/cancel") if is_ticket(name)]

    def cancelled(self, ticket: str, pilot: str) -> None:
        """Note that a pilot has done so."""
        _unlink(f"{self.of(pilot)}/cancel/{ticket}")

    def write_state(self, pilot: str, state: Mapping[str, Any]) -> None:
        """Write what a pilot has seen."""
        write_durably(f"{self.of(pilot)}/{_STATE}", json.dumps(state).encode())

    def state(self, pilot: str) -> dict[str, Any]:
        """Return what a pilot has last noted: its fields that are sound."""
        try:
            handle = os.open(f"{self.of(pilot)}/{_STATE}", os.O_RDONLY | os.O_NONBLOCK)
            with open(handle, "rb") as file:
                found = json.loads(file.read(_MOST_STATE) or b"")
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {name: found[name] for name, check in _NOTED.items() if check(found.get(name))}

    def jobs_of(self, pilot: str) -> dict[str, list[Row]]:
        """Return the rows of its jobs that a pilot has last noted, by their ticket."""
        jobs = self.state(pilot).get("jobs", {})
        return {
            ticket: [row for row in rows if _is_row(row)]
            for ticket, rows in jobs.items()
            if is_ticket(ticket) and isinstance(rows, list)
        }


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _texts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


_NOTED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("node", "home"), _is_text),
    **dict.fromkeys(("gpus", "until"), _is_number),
    "left": _texts,
    "jobs": lambda value: isinstance(value, dict),
}
_ROW: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("label", "name", "state"), _is_text),
    "attempts": lambda value: type(value) is int,
    "index": lambda value: value is None or type(value) is int,
    "reason": lambda value: value is None or _is_text(value),
    **dict.fromkeys(
        ("started_at", "ended_at", "exit_code"), lambda value: value is None or _is_number(value)
    ),
}


def _is_row(row: object) -> bool:
    return isinstance(row, dict) and all(
        name in row and check(row[name]) for name, check in _ROW.items()
    )


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)[:MOST_NAMES]
    except FileNotFoundError:
        return []


def _tickets(folder: str) -> list[str]:
    found = (name for name in _names(folder) if kind_of(name) is ENVELOPE)
    return sorted(name.removesuffix(SUFFIX) for name in found)


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    fsync_folder(os.path.dirname(path))
    return True


def take_over(
    shared: Shared,
    pilots: Iterable[str],
    rest_of: Callable[[Envelope, list[Row]], tuple[Envelope | None, bool]],
) -> list[str]:
    """Give back what pilots that have ended claimed and did not start. Returns these tickets.

    `rest_of` returns what is left to do of an envelope, by the last rows of its jobs, and whether
    anything is.
    """
    back = []
    for pilot in pilots:
        jobs = shared.jobs_of(pilot)
        for ticket in shared.claimed(pilot):
            envelope = shared.read(ticket, pilot)
            if envelope is None:
                continue
            rest, any_left = rest_of(envelope, jobs.get(ticket, []))
            if any_left:
                shared.give_back(ticket, pilot, rest)
                back.append(ticket)
            else:
                shared.forget(ticket, pilot)
    return back


# ------------------------------------------------------------------
# What is left to do of a submission when its pilot ends: what goes back to the shared folder.
#
# A job that has not started goes back. One that has started goes back only if its user says that it
# may run again (`--requeue`): it saves its work, or does no harm twice. Of an array those elements
# go back of which this holds.


def may_run_again(envelope: Envelope) -> bool:
    """Return whether its user says that a job may run again after it was interrupted."""
    try:
        return bool(job_file_in(envelope).options.requeue)
    except RadrmError:
        return False


def is_left(row: Row, again: bool) -> bool:
    """Return whether a job goes back. `again`: it may run again."""
    return row["state"] not in FINAL and (again or not row["attempts"])


def rest_of(envelope: Envelope, rows: Sequence[Row]) -> tuple[Envelope | None, bool]:
    """Return what is left of an envelope by the rows of its jobs, and whether anything is.

    None: all of it is. Without rows the daemon has not taken it in: all of it is left.
    """
    try:
        job_file = job_file_in(envelope)
    except RadrmError:
        return None, not rows  # the daemon would say what is wrong with it
    left = [row for row in rows if is_left(row, bool(job_file.options.requeue))]
    if len(left) == len(rows):
        return None, True
    if not left or job_file.options.array is None:
        return None, bool(left)
    indices = sorted(row["index"] for row in left if row["index"] is not None)
    at_once = job_file.options.array.at_once
    text = ",".join(map(str, indices)) + ("" if at_once is None else f"%{at_once}")
    fields = {**envelope.as_dict(), "options": {**envelope.options, "array": text}}
    return Envelope(**fields), True
