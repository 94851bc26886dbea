"""A hub in a thread of its own, and programs as its workers."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from radrm import elastic
from radrm.elastic.radrun.hub import Hub

Task = tuple[str, int]
ELASTIC = Path(elastic.__file__)


class Heard:
    """A listener that notes all that it hears."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: self.events.append((name, *given))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [event[1:] for event in list(self.events) if event[0] == name]


class Farm:
    """One job: its hub, its folder, and its workers' processes."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.checkpoints = folder / "checkpoints"
        self.heard = Heard()
        self.workers: dict[Task, subprocess.Popen[str]] = {}
        self.all: list[subprocess.Popen[str]] = []
        self.generation = 0
        self._python = python
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK)[::-1]
        self._calls: list[Callable[[], None]] = []
        self._selector.register(self._woken, selectors.EVENT_READ, self._run_calls)
        self.hub = self._new_hub()
        self._ended = False
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _new_hub(self) -> Hub:
        return Hub(self._selector, self.folder / "s", self.checkpoints / "shards", self.heard)

    def _loop(self) -> None:
        while not self._ended:
            for key, mask in self._selector.select():
                if key.fileobj == self._woken or key.fd in self._selector.get_map():
                    key.data(mask)

    def _run_calls(self, mask: int) -> None:
        os.read(self._woken, 4096)
        while self._calls:
            self._calls.pop(0)()

    def call(self, function: Callable[[], Any]) -> Any:
        """What the function returns, called in the hub's thread."""
        done, found = threading.Event(), []

        def run() -> None:
            try:
                found.append(function())
            finally:
                done.set()

        self._calls.append(run)
        os.write(self._wake, b"x")
        assert done.wait(60)
        return found[0]

    def restart_hub(self) -> None:
        """As if radrun had died with all its workers, and another attempt began."""

        def run() -> None:
            self.hub.close()
            self.hub = self._new_hub()

        self.call(run)

    def begin(self, tasks: Sequence[Task], program: Path, *arguments: object) -> None:
        """Start a generation of workers."""
        self.generation += 1
        generation = self.generation
        self.call(lambda: self.hub.begin(generation, list(tasks)))
        for task in tasks:
            self.start(task, tasks, program, *arguments)

    def start(
        self, task: Task, tasks: Sequence[Task], program: Path, *arguments: object
    ) -> subprocess.Popen[str]:
        """Start one worker of the present generation."""
        role, number = task
        alike = [each for each in tasks if each[0] == role]
        environment = {
            **{key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ},
            "RADRM_ELASTIC_SOCKET": str(self.folder / "s"),
            "RADRM_CHECKPOINT_DIR": str(self.checkpoints),
            "RADRM_ROLE": role,
            "RADRM_TASK": str(number),
            "RADRM_GENERATION": str(self.generation),
            "RADRM_ELASTIC_PY": str(ELASTIC),
            "ROLE_RANK": str(alike.index(task)),
            "ROLE_WORLD_SIZE": str(len(alike)),
            "RANK": str(list(tasks).index(task)),
            "WORLD_SIZE": str(len(tasks)),
            "PYTHONPATH": str(self.path()),
        }
        process = subprocess.Popen(
            [self._python, str(program), *map(str, arguments)],
            env=environment, cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.workers[task] = process
        self.all.append(process)
        return process

    def path(self) -> Path:
        """A folder from which `from radrm import elastic` gives that file alone."""
        package = self.folder / "path" / "radrm"
        if not package.exists():
            package.mkdir(parents=True)
            (package / "__init__.py").touch()
            (package / "elastic.py").symlink_to(ELASTIC)
        return package.parent

    def ended(self, task: Task) -> bool:
        return self.workers[task].poll() is not None

    def end(self) -> None:
        """Kill all workers."""
        for process in self.workers.values():
            process.kill()

    def wait(self) -> dict[Task, int]:
        """The exit codes of the present workers, and their errors shown."""
        codes = {}
        for task, process in self.workers.items():
            _, errors = process.communicate(timeout=240)
            codes[task] = process.returncode
            if errors:
                print(task, errors, file=sys.stderr)
        return codes

    def close(self) -> None:
        for process in self.all:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.call(self.hub.close)
        self._ended = True
        os.write(self._wake, b"x")
        self._thread.join(30)
        self._selector.close()
        os.close(self._wake)
        os.close(self._woken)
