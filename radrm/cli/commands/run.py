"""`radrm run`: one command in the queue, tied to this terminal.

The job's command is a program of radrm that connects back and runs the user's command
(`radrm.host.sessions`). Without a terminal, the output comes from the job's logs.
"""

from __future__ import annotations

import contextlib
import os
import sys

from radrm.cli.commands.submit import log_begins, tell
from radrm.cli.show.log import EXIT_INTERRUPTED, ended, log_writer
from radrm.client.connection import Client
from radrm.client.follow import ASK_S, Patient, stream
from radrm.client.session import JupyterHint, Session, jupyter_command
from radrm.client.submitting import check, put
from radrm.client.text import FINAL, WAITING, my_name, print_text, warn
from radrm.errors import RadrmError, UsageError
from radrm.host import sessions
from radrm.jobfile.command_line import RUN_PARAMETERS as RUN_PARAMETERS
from radrm.jobfile.command_line import RunRequest, SubmitRequest, parse_run
from radrm.jobfile.inherited import submit_with
from radrm.jobfile.radfile import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.connection import Ask
    from radrm.client.tail import Write
    from radrm.client.text import Document

_FIRST_PAUSE_S = 0.05


RUN_USAGE = ("radrm run [OPTIONS] [--pty] [--] COMMAND [ARGUMENT]...",)


def run(argv: list[str]) -> int:
    """Queue a command, and run it tied to this terminal.

    It shows the command's output, passes Ctrl-C on, and ends with its exit code. A second Ctrl-C,
    and one while the job waits, cancels the job. With --pty all keys go to the command; a shell
    ends by `exit`. When this terminal or its connection is lost, the command ends: HUP (with
    --pty), then TERM.

    \b
    Examples:
      radrm run --gpus=1 --pty -- bash
      radrm run --gpus=1 --pty -- jupyter lab --no-browser
      radrm run --gpu-memory=8G -- python train.py
    """
    request = _as_jupyter(parse_run(argv))
    if request.help:
        from radrm.cli.help import help_of  # only the help needs it

        print_text(help_of("run", request.help_all))
        return 0
    if request.pty and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("run: --pty needs a terminal on standard input and output; leave it out")
    hint = JupyterHint(os.environ, my_name(), request.jupyter)
    with (
        Client() as client,
        Session(request.pty, warn, lambda: _cancel(client, job), hint.see) as session,
    ):
        client.connect()
        submit_with(os.environ, session.environment)
        asked = _submission(request)
        results, paths, up = check(client, asked)
        begins = log_begins(results)
        put(client, results, paths, up)
        tell(asked, results, None if up or client.paths is not None else paths)
        (result,) = results
        if result["error"] is not None:
            return int(result["code"])
        job = str(result["id"] or result["ticket"])
        ask = Patient(client, warn, session.pause).ask
        try:
            if request.pty:
                return ended(_use_terminal(ask, job, session))
            logs = {"stdout": log_writer(None), "stderr": log_writer(None, sys.stderr)}
            logs = {which: _seen(write, hint) for which, write in logs.items()}
            return ended(stream(ask, job, logs, warn, pause=session.pause, begins=begins))
        except KeyboardInterrupt:
            if not session.connected:
                _cancel(client, job)
            return EXIT_INTERRUPTED
        except BaseException:
            if not session.connected:  # else the job ends with the connection
                _cancel(client, job)
            raise


def _seen(write: Write, hint: JupyterHint) -> Write:
    """A `write` that looks for the address of a Jupyter server."""

    def seen(data: bytes) -> None:
        write(data)
        for line in hint.see(data):
            warn(line)

    return seen


def _as_jupyter(request: RunRequest) -> RunRequest:
    """The request with JupyterLab as its command if it asks for that. Raises `Refused`."""
    if not request.jupyter or request.help:
        return request
    terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    raw = {"name": "jupyter", **request.raw_options}
    command = jupyter_command(request.command, os.environ)
    return RunRequest(raw, command, jupyter=True, pty=request.pty or terminal)


def _submission(request: RunRequest) -> SubmitRequest:
    """The job of a session: the command, in the hands of the program that connects back."""
    raw = {"name": name_of(request.command)}
    if request.pty:
        raw |= {"output": os.devnull}
    own = ("--pty",) if request.pty else ()
    program = (sys.executable, "-I", "-S", os.path.abspath(sessions.__file__), *own, "--")
    return SubmitRequest(
        {**raw, **request.raw_options, "interactive": True},
        command=(*program, *request.command),
        wait=True,
    )


def _use_terminal(ask: Ask, reference: str, session: Session) -> Document:
    """Wait for the job's attempts and be their terminal, until the job has ended. Returns it."""
    told, pause_s = False, _FIRST_PAUSE_S
    while True:
        (job,) = ask("status", jobs=[reference])
        if job["state"] in FINAL:
            found: Document = job
            return found
        if job["state"] in WAITING and not told:
            reason = f": {job['reason'].rstrip('.')}" if job["reason"] else ""
            warn(f"job {reference} is {job['state']}{reason}; Ctrl-C cancels it")
            told = True
        used = session.pause(pause_s)
        told = told and not used
        pause_s = _FIRST_PAUSE_S if used else min(ASK_S, pause_s * 1.5)


def _cancel(client: Client, reference: str) -> None:
    with contextlib.suppress(RadrmError):
        client.ask("cancel", jobs=[reference])
        warn(f"cancelled job {reference}")
