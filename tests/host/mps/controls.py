"""MPS control daemons for tests: the stand-in as a process, and one that is only words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from radrm.host.mps.control import Control, Missing, NoAnswer, Server
from radrm.host.processes.identity import Identity, alive
from tests.paths import STANDINS
from tests.waiting import wait_until

ONE = "GPU-11111111-0000-0000-0000-000000000000"
TWO = "GPU-22222222-0000-0000-0000-000000000000"


class Place:
    """A folder for control daemons, and all processes that were started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state.json"
        self.children: list[subprocess.Popen[bytes]] = []
        self.controls: list[Control] = []

    def control(self, name: str = "m") -> Control:
        pipes = str(self.folder / name)
        made = Control(pipes, f"{pipes}.log", ONE)
        self.controls.append(made)
        return made

    def wrong(self, **how: Any) -> None:
        beside = self.state.with_suffix(".new")
        beside.write_text(json.dumps(how))
        beside.rename(self.state)

    def client(
        self, control: Control, *words: str, before: tuple[str, ...] = ()
    ) -> tuple[int, Path]:
        """A client process, once its server has it; `before` is the command that runs it."""
        notes = self.folder / f"client-{len(self.children)}"
        child = subprocess.Popen(
            [*before, sys.executable, str(STANDINS / "mps_client.py"), str(notes), *words],
            env={**os.environ, "CUDA_MPS_PIPE_DIRECTORY": control.pipes},
        )
        self.children.append(child)
        wait_until(lambda: notes.exists() and "ready" in notes.read_text(), "the client")
        return int(notes.read_text().partition("pid=")[2].split()[0]), notes

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()
        for control in self.controls:
            end(control)


def end(control: Control) -> None:
    who = control.process()
    if who is not None:
        os.kill(who.pid, signal.SIGKILL)
        wait_until(lambda: not alive(who), "the end of a control daemon")


class Fake(Control):
    """A control daemon that is nothing but words."""

    def __init__(self) -> None:
        super().__init__("/pipes", "/logs", ONE)
        self.who: Identity | None = None
        self.found: tuple[Server, ...] = ()
        self.silent = False
        self.refuses: str | None = None
        self.absent: str | None = None
        self.did: list[str] = []

    def process(self) -> Identity | None:
        return self.who

    def missing(self) -> str | None:
        return self.absent

    def start(self) -> Identity:
        self.did.append("start")
        if (absent := self.missing()) is not None:
            raise Missing(absent)
        if self.refuses:
            raise NoAnswer(self.refuses)
        self.who, self.found = Identity(2**22 + 7, 1, "boot"), ()
        return self.who

    def probe(self) -> tuple[Server, ...]:
        if self.silent:
            raise NoAnswer("no answer")
        return self.found

    def terminate_client(self, server: int, client: int, timeout_s: float = 2.0) -> None:
        self.did.append(f"terminate {server} {client}")

    def start_server(self, uid: int) -> None:
        self.did.append(f"start server of {uid}")

    def quit(self, timeout_s: float = 2.0) -> None:
        self.did.append("quit")

    def kill(self, servers: Any = ()) -> None:
        self.did.append(f"kill {sorted(servers)}")
        self.who, self.found = None, ()
