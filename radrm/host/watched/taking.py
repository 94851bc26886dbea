"""One look into a watched folder: from complete files to envelopes in the spool.

Theory of operation. Each file takes the same steps:

    claim     a rename within the folder to a name that holds the ticket
    sync      of the folder
    put       of an envelope under that ticket
    finish    a rename into `done/`

After a kill between two steps the next look continues with the claim. A kill

    before the claim         leaves the file as it was
    before the put           makes the next look put the envelope
    within the put           makes it remove the draft and put the envelope
    before the finish        makes it put the envelope again under the same ticket; the second one
                             replaces the first in the spool, or if the daemon has taken the first
                             in, the store knows the ticket and drops the second

So no file becomes two jobs, and none is lost.
"""

from __future__ import annotations

import contextlib
import io
import os
import time

from radrm.errors import BadFile, RadrmError, Refused, StoreError
from radrm.host.mistakes import look_over
from radrm.host.storage.spool import Spool
from radrm.host.storage.submission import envelope_of, here, with_table
from radrm.host.storage.tickets import new_ticket
from radrm.host.transient import may_pass
from radrm.host.watched.folder import Changed, Folder, Seen
from radrm.host.watched.login import Login
from radrm.host.watched.names import claimed, kept, printable
from radrm.jobfile.radfile import JobFile, read_job_file
from radrm.jobfile.record import Record
from radrm.jobfile.relations import ONLY_IDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

SETTLE_S = 2.0
"""Seconds without a change after which a file counts as complete. A file that is renamed into
place is complete at once."""
MOST_FILES = 200
"""Files that one look takes; the others wait for the next look."""
BUDGET_S = 20.0
"""Seconds after which a look begins no further file."""


class Report(Record):
    """The result of a look. A user can choose any file name, so readers make all texts plain.

    `more`: files wait for the next look. `unsettled`: the number of files that still change.
    `error`: the reason why the look stopped; it may pass. `notes` are for the log.
    """

    taken: list[list[str]]
    """Name, ticket and job's name of each file that became a job."""
    refused: list[list[str]]
    """Name and reason of each that did not."""
    more: bool = False
    unsettled: int = 0
    error: str | None = None
    notes: list[str] = []
    logged_in: bool = False


class Look:
    """One look into `folder`.

    `moved` are the names that were renamed into place. `log_in` is called once, if there is a file
    to take. `home` is the folder in which jobs run.
    """

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
        """Submit all complete files. No content of the folder makes it raise."""
        printed = io.StringIO()  # the warnings that `radrm submit` prints for its user
        try:
            with contextlib.redirect_stderr(printed):
                self._run()
        except (OSError, StoreError, MemoryError) as error:
            self._found["error"] = f"{self._folder.path}: {_words(error)}"
        self._found["notes"] += printed.getvalue().splitlines()[:MOST_FILES]
        return Report(**self._found, logged_in=self._login is not None)

    def _run(self) -> None:
        until = time.monotonic() + BUDGET_S
        files, claims = self._folder.names()
        for claim in claims[:MOST_FILES]:
            ticket, name = claimed(claim) or ("", "")
            self._finish_claim(claim, ticket, name, None)
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
                continue  # its owner has removed it meanwhile
            ticket = new_ticket()
            try:
                claim = self._folder.claim(name, ticket)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._report_unmoved(name, error)
                continue
            if not printable(name):
                reason = f"its name {name!a} holds characters that cannot be shown; rename it"
                self._refuse(claim, kept(name), reason)
                continue
            self._finish_claim(claim, ticket, name, seen)

    def _finish_claim(self, claim: str, ticket: str, name: str, seen: Seen | None) -> None:
        """Submit a claimed file, or refuse it. `seen` is None for an earlier look's claim."""
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
            raise  # the file is not at fault: it stays claimed, and a later look continues
        except RadrmError as error:
            self._refuse(claim, name, str(error))
            return
        try:
            self._folder.finish(claim)
        except FileNotFoundError:
            pass  # its owner has removed it
        except OSError as error:
            self._report_unmoved(name, error)
        self._found["taken"].append([name, ticket, job])

    def _put(self, claim: str, ticket: str, name: str, seen: Seen | None) -> str:
        """Submit a claimed file; return the job's name. Raises `RadrmError` for a wrong file."""
        if not printable(name):
            raise BadFile("its name held characters that cannot be shown; rename it")
        data = self._folder.read(claim, seen)
        job_file = self._parsed(data, name)
        self._enter_home(job_file.options.chdir)
        if job_file.options.snapshot is not None:
            raise BadFile("--snapshot is for the command line of radrm submit; leave it out")
        named = next((each.job for each in job_file.options.after if each.looked_up), None)
        if named is not None:
            raise BadFile(f"--after={named}: {ONLY_IDS}")
        job_file = with_table(job_file)
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
        seen_to = look_over(job_file, envelope.cwd, envelope.environment, name)
        self._found["notes"] += [f"{name}: {n}" for n in seen_to.notes[len(job_file.notes) :]]
        self._folder.sync()
        self._spool.drop_draft(ticket)  # a killed look may have left one
        try:
            self._spool.put([envelope])
        except Refused as error:
            # The user has too many envelopes in the spool now, which is not this file's fault.
            raise StoreError(f"{error}; its files wait") from None
        return job_file.name

    def _parsed(self, data: bytes, name: str) -> JobFile:
        try:
            job_file = read_job_file(data, name, {}).dated(here(), name)
        except (RadrmError, MemoryError):
            raise
        except Exception as error:  # an error that one file causes must not stop the others
            raise BadFile(f"it cannot be read: {type(error).__name__}: {error}") from error
        self._found["notes"] += [f"{name}: {note}" for note in job_file.notes]
        return job_file

    def _enter_home(self, chdir: str | None) -> None:
        """Enter the folder in which the job runs; relative paths of the file start there."""
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
            self._report_unmoved(name, error)
            return
        self._found["refused"].append([name, reason])

    def _report_unmoved(self, name: str, error: OSError) -> None:
        """Report one file that cannot be moved. The look continues with the others, and a later
        one tries again."""
        if may_pass(error):
            raise error
        self._found["error"] = f"{self._folder.path}: {name!a} cannot be moved: {error.strerror}"


def _words(error: BaseException) -> str:
    """The text of an error, for a report."""
    if isinstance(error, OSError) and may_pass(error):
        return f"{error.strerror}; its files wait"
    return str(error) or type(error).__name__
