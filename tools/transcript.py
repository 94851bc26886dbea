"""Run the commands of a document's transcripts, and write their output into the document.

    python -m tools.transcript docs/tutorial.md     run, and replace the output

A fenced block `console` holds commands, each after `$ `, and what they printed. A block
whose info string has `file=NAME` is a file that the reader is told to write. All commands
of a document run in one shell, in order, in an empty folder, on a terminal of 100 columns.
After a command that starts `radrm daemon`, the next one waits until it answers.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from radrm.client.connection import Client
from radrm.errors import Unreachable
from radrm.host.storage.paths import paths_for

COLUMNS = 100
PATIENCE_S = 120.0

_FENCE = re.compile(r"```(\w+)(?: file=(\S+))?\n(.*?)```\n", re.DOTALL)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def await_daemon(environment: Mapping[str, str]) -> None:
    """Wait until the daemon of an environment answers. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with Client((paths_for(environment, os.getuid()),)) as client:
            try:
                client.ask("ping")
                return
            except Unreachable:
                time.sleep(0.05)
    raise TimeoutError("the daemon does not answer")


@dataclass(slots=True)
class Ran:
    """A command of the document, its output and its exit code."""

    command: str
    output: str
    code: int


@dataclass(slots=True)
class Shell:
    """One shell in `folder`, whose commands print to a terminal."""

    folder: Path
    environment: Mapping[str, str]
    _bash: subprocess.Popen[bytes] = field(init=False)
    _terminal: int = field(init=False)

    def __post_init__(self) -> None:
        self._terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=theirs,
            stderr=theirs,
            cwd=self.folder,
            env={**self.environment, "TERM": "xterm", "NO_COLOR": "1", "RADRM_HINTS": "0"},
        )
        os.close(theirs)

    def run(self, command: str) -> Ran:
        """Run one command to its end. Raises TimeoutError if it does not end."""
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{command}\nprintf '\\001%d\\001' $?\n".encode())
        self._bash.stdin.flush()
        said, deadline = b"", time.monotonic() + PATIENCE_S
        while not (end := re.search(rb"\x01(\d+)\x01", said)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{command} does not end; it said {said!r}")
            said += os.read(self._terminal, 65536)
        text = _ESCAPE.sub("", said[: end.start()].decode("utf-8", "replace"))
        lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
        if "radrm daemon" in command:
            await_daemon(self.environment)
        return Ran(command, "\n".join(lines).strip("\n"), int(end[1]))

    def close(self) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        self._bash.wait()
        os.close(self._terminal)


def files_and_commands(text: str) -> Iterator[tuple[str | None, str]]:
    """The files (name, content) and commands (None, command) of a document, in order."""
    for fence in _FENCE.finditer(text):
        kind, name, body = fence.groups()
        if name is not None:
            yield name, body
        elif kind == "console":
            for line in body.splitlines():
                if line.startswith("$ "):
                    yield None, line[2:]


def run(text: str, shell: Shell) -> list[Ran]:
    """Write the files and run the commands of a document. Returns the result of each command."""
    ran = []
    for name, content in files_and_commands(text):
        if name is not None:
            (shell.folder / name).write_text(content)
        else:
            ran.append(shell.run(content))
    return ran


def rewritten(text: str, ran: list[Ran]) -> str:
    """The document with the new output of its commands."""
    outputs = iter(ran)

    def fill(fence: re.Match[str]) -> str:
        kind, name, body = fence.groups()
        if kind != "console" or name is not None:
            return fence[0]
        lines: list[str] = []
        for line in body.splitlines():
            if line.startswith("$ "):
                output = next(outputs).output
                lines += [line, output] if output else [line]
        return "```console\n" + "\n".join(lines) + "\n```\n"

    return _FENCE.sub(fill, text)


def main() -> None:
    document = Path(sys.argv[1])
    folder = Path(tempfile.mkdtemp(prefix="radrm-transcript-"))
    work = folder / "sweep"
    work.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RADRM_")}
    environment["RADRM_HOME"] = str(folder / "home")
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    shell = Shell(work, environment)
    try:
        ran = run(document.read_text(), shell)
    finally:
        shell.close()
        shutil.rmtree(folder, ignore_errors=True)
    text = rewritten(document.read_text(), ran)
    for place, said in ((work, "/home/ann/sweep"), (folder / "home", "/home/ann/.radrm")):
        text = text.replace(str(place), said)
    document.write_text(text)
    for each in ran:
        print(f"{each.code:>3}  {each.command}")


if __name__ == "__main__":
    main()
