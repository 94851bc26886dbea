"""`radrm watch`: submit the `.rad` files of a folder while the command runs."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer

from radrm.client.connection import Client, find_spool
from radrm.errors import Refused
from radrm.host.storage.paths import Paths
from radrm.host.watched.folder import Folder
from radrm.host.watched.keeper import Keeper
from radrm.host.watched.looking import look_now
from radrm.host.watched.start_look import Wanted
from radrm.host.watched.taking import Report
from radrm.host.watched.users import Owned


def watch(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A folder of your own.")],
    once: Annotated[
        bool, typer.Option("--once", help="Submit the files that are there now, and end.")
    ] = False,
) -> None:
    """Submit the .rad files that are put into a folder, until Ctrl-C or TERM.

    A job runs in your home folder, with the environment of your login. Its file is moved to
    DIR/done, with the job's ticket in its name. A file that cannot be a job is moved to
    DIR/refused, with the reason beside it. A file is complete when it is renamed into the
    folder, or when it does not change for 2 s.

    With --once the exit code is 1 if a file is refused or cannot be submitted.

    \b
    Examples:
      radrm watch ~/jobs
      radrm watch --once ~/jobs
    """
    folder = os.path.abspath(directory)
    if not os.path.isdir(folder):
        raise Refused(f"{folder} is not a folder; make it, or name another")
    with Client() as client:
        paths, up = find_spool(client)
    with Folder(folder):
        pass  # an unusable folder raises before anything begins
    if not up:
        wait = f"no daemon is running; jobs wait in {paths.state} until one is: radrm daemon"
        print(f"radrm: {wait}", file=sys.stderr)
    printer = _Printer()
    if once:
        if not _take_all(folder, paths, printer):
            raise typer.Exit(1)
        return
    owned = Owned(folder, os.getuid(), os.getgid())
    keeper = Keeper(lambda: [owned], paths.spool, printer.report, drop=False, extra=_extra())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: keeper.stop())
    print(f"Watching {folder} for .rad files; Ctrl-C ends it", file=sys.stderr, flush=True)
    keeper.run()


def _take_all(folder: str, paths: Paths, printer: _Printer) -> bool:
    """Submit the files that are there now. False if one of them could not be submitted."""
    fine = True
    while True:
        try:
            report = look_now(Wanted(folder, paths.spool, extra=_extra()))
        except OSError as error:
            raise Refused(f"{folder} cannot be read: {error.strerror}; try again") from error
        printer.report(None, report)
        fine = fine and not (report.refused or report.error or report.unsettled)
        if report.error or not report.more:
            return fine


def _extra() -> dict[str, str]:
    """The variables with which jobs of these files reach the same daemon."""
    home = os.environ.get("RADRM_HOME")
    return {"RADRM_HOME": os.path.abspath(home)} if home else {}


class _Printer:
    """Prints the reports of looks. An error that lasts is printed once."""

    def __init__(self) -> None:
        self._error: str | None = None

    def report(self, _: Owned | None, report: Report) -> None:
        for name, ticket, job in report.taken:
            print(f"Submitted {name} ({job}) as {ticket}", flush=True)
        for name, reason in report.refused:
            print(f"radrm: {name} is refused: {reason}", file=sys.stderr)
        for note in report.notes:
            print(f"radrm: note: {note}", file=sys.stderr)
        if report.error is not None and report.error != self._error:
            print(f"radrm: {report.error}", file=sys.stderr)
        self._error = report.error
