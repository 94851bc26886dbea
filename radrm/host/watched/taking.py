"""One look into a watched folder: from complete files to envelopes in the spool.

Each file goes one way: **claim** (a rename within the folder to a name that holds the ticket),
**sync** of the folder, **put** of an envelope under that ticket, **finish** (a rename into
`done/`). After a kill between any two steps the next look goes on with the claim:

    before the claim         the file lies there as it did
    before the put           the envelope is put, once
    within the put           the draft is removed and the envelope put
    before the finish        the envelope is put again under the same ticket: where the first
                             still waits in the spool it is replaced, and where it has been
                             taken in, the store knows its ticket and drops the second

So no file becomes two jobs, and none is lost.
"""

from __future__ import annotations

import contextlib
import io
import os
import time

from radrm.errors import BadFile, RadrmError, Refused, StoreError
from radrm.host.storage.spool import Spool
from radrm.host.storage.submission import envelope_of
from radrm.host.storage.tickets import new_ticket
from radrm.host.trouble import may_pass
from radrm.host.watched.folder import Changed, Folder, Seen
from radrm.host.watched.login import Login
from radrm.host.watched.names import claimed, kept, printable
from radrm.jobfile.radfile import JobFile, read_job_file
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

SETTLE_S = 2.0
"""A file that is not renamed into place is complete when nothing about it changes for so long."""
MOST_FILES = 200
"""Files that one look takes; the rest waits for the next."""
BUDGET_S = 20.0
"""No further file is begun after so long."""


class Report(Record):
    """What a look came to. Texts are plain: anybody may have chosen a file's name.

    `more`: files wait that this look did not come to. `unsettled`: files that still change.
    `trouble`: why nothing more could be done; it may pass. `notes` are for the log.
    """

    taken: list[list[str]]
    """Name, ticket and job's name of each file that became a job."""
    refused: list[list[str]]
    """Name and reason of each that did not."""
    more: bool = False
    unsettled: int = 0
    trouble: str | None = None
    notes: list[str] = []
    logged_in: bool = False


class Look:
    """One look into `folder`. `moved` are the names that were renamed into place; `log_in` is
    asked once, if there is a file to take; `home` is where jobs run."""

    def __init__(
        self,
        folder: Folder,
        spool: Spool,
        home: str,
        log_in: Callable[[], Login],
        moved: Collection[str] = (),
        extra: dict[str, str] | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder
        self._spool = spool
        self._home = home
        self._log_in = log_in
        self._moved = moved
        self._extra = extra or {}
        self._pause = pause
        self._login: Login | None = None
        self._found: dict[str, Any] = {"taken": [], "refused": [], "notes": []}

    def run(self) -> Report:
        """Take all that is complete. Never raises for what lies there."""
        said = io.StringIO()  # as `radrm submit` says it to its user
        try:
            with contextlib.redirect_stderr(said):
                self._run()
        except (OSError, StoreError, MemoryError) as error:
            self._found["trouble"] = f"{self._folder.path}: {_words(error)}"
        self._found["notes"] += said.getvalue().splitlines()[:MOST_FILES]
        return Report(**self._found, logged_in=self._login is not None)

    def _run(self) -> None:
        until = time.monotonic() + BUDGET_S
        files, claims = self._folder.names()
        for claim in claims[:MOST_FILES]:
            ticket, name = claimed(claim) or ("", "")
            self._go_on(claim, ticket, name, None)
        room = max(0, MOST_FILES - len(claims))
        self._found["more"] = len(files) > room or len(claims) > MOST_FILES
        seen = {name: self._folder.seen(name) for name in files[:room]}
        self._take({n: s for n, s in seen.items() if n in self._moved}, until)
        others = {n: s for n, s in seen.items() if n not in self._moved}
        if others:
            self._pause(SETTLE_S)
            settled = {n: s for n, s in others.items() if self._folder.seen(n) == s}
            self._found["unsettled"] = len(others) - len(settled)
            self._take(settled, until + SETTLE_S)

    def _take(self, files: dict[str, Seen | None], until: float) -> None:
        for name, seen in files.items():
            if time.monotonic() > until:
                self._found["more"] = True
                return
            if seen is None:
                continue  # it has gone meanwhile
            ticket = new_ticket()
            try:
                claim = self._folder.claim(name, ticket)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._hinder(name, error)
                continue
            if not printable(name):
                reason = f"its name {name!a} holds characters that cannot be shown; rename it"
                self._refuse(claim, kept(name), reason)
                continue
            self._go_on(claim, ticket, name, seen)

    def _go_on(self, claim: str, ticket: str, name: str, seen: Seen | None) -> None:
        """From a claim on. `seen` is None for one that an earlier look has left."""
        try:
            job = self._put(claim, ticket, name, seen)
        except Changed:
            self._found["unsettled"] = self._found.get("unsettled", 0) + 1
            if seen is not None:
                try:
                    self._folder.give_back(claim, name)
                except FileNotFoundError:
                    pass  # its owner has removed it
            return
        except (OSError, StoreError, MemoryError):
            raise  # no fault of the file's: it stays claimed, and a later look goes on
        except RadrmError as error:
            self._refuse(claim, name, str(error))
            return
        try:
            self._folder.finish(claim)
        except FileNotFoundError:
            pass  # its owner has removed it
        except OSError as error:
            self._hinder(name, error)
        self._found["taken"].append([name, ticket, job])

    def _put(self, claim: str, ticket: str, name: str, seen: Seen | None) -> str:
        """Hand it in; the job's name. Raises `RadrmError` for what is wrong with the file."""
        if not printable(name):
            raise BadFile("its name held characters that cannot be shown; rename it")
        data = self._folder.read(claim, seen)
        job_file = self._parsed(data, name)
        self._enter_home(job_file.options.chdir)
        if self._login is None:
            self._login = self._log_in()
            if self._login.note:
                self._found["notes"].append(self._login.note)
        envelope = envelope_of(
            job_file,
            os.path.join(self._folder.path, name),
            data,
            {},
            ticket=ticket,
            environment={**self._login.environment, **self._extra},
            umask=self._login.umask,
        )
        self._folder.sync()
        self._spool.drop_draft(ticket)  # of a look that was killed
        try:
            self._spool.put([envelope])
        except Refused as error:
            raise StoreError(f"{error}; its files wait") from None  # too many wait there now
        return job_file.name

    def _parsed(self, data: bytes, name: str) -> JobFile:
        try:
            job_file = read_job_file(data, name, {})
        except (RadrmError, MemoryError):
            raise
        except Exception as error:  # whatever a file can bring about is its own affair
            raise BadFile(f"it cannot be read: {type(error).__name__}: {error}") from error
        self._found["notes"] += [f"{name}: {note}" for note in job_file.notes]
        return job_file

    def _enter_home(self, chdir: str | None) -> None:
        """Where the job runs, and what its relative paths are relative to."""
        try:
            os.chdir(self._home)
        except OSError as error:
            if chdir is None or not chdir.startswith("/"):
                raise BadFile(
                    f"your home folder {self._home} cannot be entered: {error.strerror}; name "
                    "another folder with a line: #RAD --chdir=/FOLDER"
                ) from None
            os.chdir("/")

    def _refuse(self, claim: str, name: str, reason: str) -> None:
        try:
            self._folder.refuse(claim, reason)
        except FileNotFoundError:
            return  # its owner has removed it
        except OSError as error:
            if may_pass(error):
                raise
            self._hinder(name, error)
            return
        self._found["refused"].append([name, reason])

    def _hinder(self, name: str, error: OSError) -> None:
        """One file cannot be moved. The others go on; a later look tries again."""
        if may_pass(error):
            raise error
        self._found["trouble"] = f"{self._folder.path}: {name!a} cannot be moved: {error.strerror}"


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and may_pass(error):
        return f"{error.strerror}; its files wait"
    return str(error) or type(error).__name__
