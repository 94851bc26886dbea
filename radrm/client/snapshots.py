"""`radrm submit --snapshot`: which copy a job runs in, and which copies nobody needs any more.

A copy stays while one of its jobs waits or runs. Of those whose jobs have all ended, the newest
`KEPT` stay, so that `radrm requeue` finds them.
"""

from __future__ import annotations

import os

from radrm.client.states import FINAL
from radrm.client.text import warn
from radrm.errors import RadrmError, Refused
from radrm.host.snapshots import (
    Note,
    copies,
    files_folder,
    files_of,
    make,
    read_note,
    remove,
)
from radrm.host.storage.paths import own_state
from radrm.host.storage.spool import has_envelope
from radrm.host.storage.tickets import new_ticket
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from radrm.client.connection import Client
    from radrm.host.storage.paths import Paths
    from radrm.jobfile.radfile import JobFile

KEPT = 10
_ASKED = 200
"""Copies about whose jobs one submission asks, the oldest first."""


class Copy(Record):
    """A copy that is to be made of the folder `source`, for the jobs of one `radrm submit`."""

    source: str
    name: str
    place: str
    files: tuple[str, ...]

    def run_folder(self, job_file: JobFile) -> str:
        """Where a job runs: at the place of its folder in the copy, or at the top of the copy."""
        folder = os.path.realpath(job_file.options.chdir or "")
        top = files_folder(self.place, self.name)
        inside = os.path.commonpath([folder, self.source]) == self.source
        return (
            os.path.normpath(os.path.join(top, os.path.relpath(folder, self.source)))
            if inside
            else top
        )


class Copies:
    """The copies of one `radrm submit`: jobs with the same folder share one."""

    def __init__(self, paths: Paths) -> None:
        self._place = os.path.join(own_state(paths, os.environ), "snapshots")
        self._spool = paths.spool
        self._copies: dict[str, Copy] = {}

    def of(self, job_file: JobFile) -> Copy:
        """The copy for a job. Nothing is copied yet. Raises `BadFile`."""
        source = os.path.realpath(job_file.options.snapshot or "")
        if source not in self._copies:
            self._copies[source] = Copy(source, new_ticket(), self._place, files_of(source))
        return self._copies[source]

    def make(self, results: list[dict[str, Any]]) -> None:
        """Make the copies of the jobs that are about to be submitted. Raises `BadFile`."""
        for copy in self._copies.values():
            tickets = [r["envelope"].ticket for r in results if r.get("copy") is copy]
            if tickets:
                note = Note(copy.source, self._spool, tuple(tickets), copy.files)
                make(copy.place, copy.name, note)

    def sweep(self, client: Client) -> None:
        """Remove the copies that nobody needs any more. What jobs wrote into them stays."""
        ended = []
        for name in copies(self._place)[:_ASKED]:
            note = read_note(self._place, name)
            if note is not None and note.spool == self._spool and not self._live(client, note):
                ended.append((name, note))
        for name, note in ended[: max(0, len(ended) - KEPT)]:
            if not remove(self._place, name, note):
                warn(
                    f"note: the old snapshot of {note.source} is removed; what its jobs wrote "
                    f"stays in {files_folder(self._place, name)}"
                )

    def _live(self, client: Client, note: Note) -> bool:
        """Whether a job of this copy may still run by itself."""
        return any(_is_live(client, self._spool, ticket) for ticket in note.tickets)


def _is_live(client: Client, spool: str, ticket: str) -> bool:
    try:
        counts = client.ask("page", jobs=[ticket], offset=0, limit=1)["counts"]
    except Refused:  # the daemon knows none: not yet, or not any more
        return has_envelope(spool, ticket)
    except RadrmError:
        return True
    return any(count for state, count in counts.items() if state not in FINAL)
