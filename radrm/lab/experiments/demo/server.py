"""A private daemon on simulated GPUs, in a folder of its own, that leaves nothing behind.

Theory of operation. The daemon has its own session, so the terminal's Ctrl-C does not reach it:
an interrupted daemon would leave its jobs running. `end` works in any state, also half started.
It cancels all jobs first, then ends the daemon, the driver and the folder.

Handlers of signals run in the main thread, between any two steps of it. The first signal raises
SystemExit there, so that `finally` blocks end processes and remove folders. Signals during that
are ignored. Between the start of a process and the note of it, signals are only noted
(`signals_later`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from radrm.client.connection import Client
from radrm.errors import DeviceError, RadrmError, Refused, Unreachable
from radrm.host.simulated.client import DriverClient
from radrm.host.simulated.start_driver import SOCKET_NAME
from radrm.host.storage.paths import paths_for

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def orderly_end(say: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Let the first Ctrl-C, TERM or hang-up call `say` and raise SystemExit, and ignore later
    ones, so that everything is cleaned up."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    caught = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]

    def end(number: int, frame: FrameType | None) -> None:
        for each in caught:
            signal.signal(each, signal.SIG_IGN)
        say()
        sys.exit(128 + number)

    for number in caught:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, before[number])


@contextlib.contextmanager
def signals_later() -> Iterator[None]:
    """Delay signals until the block ends. An exception between the start of a process and the
    note of it would leave that process behind."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread only
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}
    caught = {number: handler for number, handler in before.items() if callable(handler)}
    for number in caught:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


_START_LIMIT_S = 20.0
_END_LIMIT_S = 10.0
_FIRST_READING_S = 10.0
_PAUSE_S = 0.05
_RADRM = (sys.executable, "-m", "radrm.cli.main")


class DemoServer:
    """One private server: `start`, `submit`, `ask`. Call `end` in any case."""

    def __init__(self, folder: Path, gpus: str, time_scale: float, settings: Sequence[str]) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        (folder / "radrm.toml").touch()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RADRM_")},
            "RADRM_HOME": str(folder / "state"),
            # An empty file, so that the machine's own configuration has no effect.
            "RADRM_CONFIG": str(folder / "radrm.toml"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        }
        self._command = [*_RADRM, "daemon", "--gpus", gpus, "--time-scale", str(time_scale)]
        for setting in settings:
            self._command += ["--set", setting]
        self.paths = paths_for(self.environment, os.getuid())
        self._client = Client((self.paths,))
        self._daemon: subprocess.Popen[bytes] | None = None

    # ------------------------------------------------------------- beginning

    def start(self) -> None:
        """Start the daemon; `await_answer` waits for it."""
        with (self.folder / "daemon.log").open("wb") as log, signals_later():
            self._daemon = subprocess.Popen(
                self._command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def await_answer(self) -> None:
        """Wait until the daemon answers. Raises DeviceError if it does not."""
        if not wait(self._is_up_or_dead, _START_LIMIT_S) or not self._answers():
            lines = (self.folder / "daemon.log").read_text(errors="replace").splitlines()
            last = lines[-1] if lines else "its log is empty"
            raise DeviceError(f"the private daemon did not start: {last.removeprefix('radrm: ')}")

    def submit(self, files: Sequence[str]) -> subprocess.Popen[str]:
        """Start one `radrm submit`, as a user would; `submitted` waits for it."""
        with signals_later():
            return subprocess.Popen(
                [*_RADRM, "submit", *files],
                env=self.environment,
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )

    def ask(self, op: str, **words: Any) -> Any:
        return self._client.ask(op, **words)

    def devices(self) -> list[dict[str, Any]]:
        """Wait a limited time until each device was read. Returns the devices."""

        def read() -> bool:
            return all(device["used_mib"] is not None for device in self.ask("gpus"))

        wait(read, _FIRST_READING_S)
        found: list[dict[str, Any]] = self.ask("gpus")
        return found

    # ------------------------------------------------------------- ending

    def end(self) -> None:
        """End jobs, daemon and driver, and remove the folder, in any state of them."""
        if self._daemon is not None:
            # A daemon that is still starting may be about to start its driver.
            wait(self._is_up_or_dead, _END_LIMIT_S)
            wait(self._has_no_job, _END_LIMIT_S)
            self._client.close()
            self._end_daemon(self._daemon)
            self._end_driver()
        wait(self._has_no_folder, _END_LIMIT_S)

    def _has_no_job(self) -> bool:
        try:
            page = self.ask("page", limit=1)  # `status` refuses to show very many jobs
            if page["total"]:
                self.ask("cancel", jobs=[], user=page["jobs"][0]["user"])
        except RadrmError:
            return not self._answers()
        return not page["total"]

    def _end_daemon(self, daemon: subprocess.Popen[bytes]) -> None:
        daemon.terminate()
        try:
            daemon.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def _end_driver(self) -> None:
        """End the driver now; alone it would end after a minute. Jobs that are left end too."""
        try:
            driver = DriverClient(Path(self.paths.run) / SOCKET_NAME, _END_LIMIT_S)
        except (Unreachable, OSError):
            return
        with contextlib.suppress(DeviceError), contextlib.closing(driver):
            pid = driver.hello().pid
            try:
                driver.ask("quit")
            except DeviceError:
                os.kill(pid, signal.SIGTERM)
            wait(lambda: not os.path.exists(f"/proc/{pid}"), _END_LIMIT_S)

    def _has_no_folder(self) -> bool:
        shutil.rmtree(self.folder, ignore_errors=True)
        return not self.folder.exists()

    # ------------------------------------------------------------- looking

    def _is_up_or_dead(self) -> bool:
        assert self._daemon is not None
        return self._daemon.poll() is not None or self._answers()

    def _answers(self) -> bool:
        try:
            self._client.connect(patient=False)
        except Unreachable:
            return False
        return True


def submitted(submissions: Sequence[subprocess.Popen[str]]) -> None:
    """Wait for submissions. Raises Refused with the error output of one that failed."""
    for submission in submissions:
        _, errors = submission.communicate()
        if submission.returncode != 0:
            raise Refused(f"the demo's jobs could not be submitted: {errors.strip()}")


def wait(condition: Callable[[], bool], limit_s: float) -> bool:
    """Wait for a condition. False if it does not become true in time."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True
