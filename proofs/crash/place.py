"""One home for the matrix: its folder, its daemon, its client.

Theory of operation. The daemon is forked from this process, which has imported all of it: so it
starts in a few milliseconds, and a thousand restarts are affordable. It is a process like any
other: it runs `radrm.daemon.main.run` and is killed by SIGKILL. This process must have no threads.
The folder lies in memory (`/dev/shm`) where that is possible: a kill does not need a slow disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from proofs.crash import KILLED, forker, runner
from proofs.crash.defects import put_in
from proofs.crash.synced import TOLD, keep_shadow, keep_store
from proofs.crash.watcher import (
    BOOT,
    DAEMON,
    DEFECT,
    FIRED,
    GROUPS,
    MARK,
    REACHED,
    SHOT,
    Watcher,
    append,
    note_groups,
    set_boot,
    shoot_attempts,
)
from proofs.processes import every_process
from proofs.server import driver, stored
from radrm.client.connection import Client
from radrm.daemon import main as daemon
from radrm.errors import DeviceError, RadrmError, Unreachable
from radrm.host import crossings
from radrm.host.attempts import forker as forker_process
from radrm.host.attempts import forking
from radrm.host.attempts import runner as runner_program
from radrm.host.storage.paths import paths_for, prepare
from radrm.host.storage.spool import Envelope, Spool
from tests.paths import REPOSITORY
from tests.waiting import wait_until

GPUS = "sim:4xA100-40GB"
SCALE = 50.0
_MEMORY = "/dev/shm"
_START_S = 60.0
_PATIENCE_S = 0.3
"""For the forker: less than it stands still where a shot makes it pause."""


class Failed(AssertionError):
    """radrm has broken a promise."""


class Place:
    """A home in a folder of its own."""

    def __init__(
        self,
        settings: Sequence[str],
        keep: bool = False,
        power: bool = False,
        defect: str | None = None,
    ) -> None:
        """`power`: what is synced is noted, for a power failure. `defect`: see `defects`."""
        above = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        self.folder = tempfile.mkdtemp(prefix="radrm-crash-", dir=above)
        self.settings = list(settings)
        self.keep = keep
        self.defect = defect
        if defect is not None:
            Path(self.folder, DEFECT).write_text(defect)
        self.work = os.path.join(self.folder, "work")
        os.mkdir(self.work)
        programs = os.path.join(self.folder, "bin")
        os.mkdir(programs)
        self._program(f"{programs}/radrun", f'exec {sys.executable} -m radrm.elastic.radrun "$@"')
        here = os.path.dirname(sys.executable)
        self.environment = {
            "HOME": self.folder,
            "PATH": f"{programs}:{here}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "RADRM_HOME": f"{self.folder}/home",
        }
        self.paths = paths_for(self.environment, os.getuid())
        if power:
            keep_shadow(self.folder)
            keep_store(self.folder)
        prepare(self.paths, system=False)
        self.pid = 0
        """The daemon's; 0 while none runs."""
        self.starts = 0
        self._boots = 0
        self._client = Client((self.paths,))

    @staticmethod
    def _program(path: str, line: str) -> None:
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\n{line}\n")
        os.chmod(path, 0o755)

    # ------------------------------------------------------------- the daemon

    def start(self) -> None:
        """Fork a daemon."""
        self._client.close()
        self.starts += 1
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                self._become_daemon()
                code = 0
            except RadrmError as error:
                print(f"radrm: {error}", file=sys.stderr)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        with open(f"{self.folder}/{DAEMON}", "w") as file:
            file.write(str(self.pid))

    def _become_daemon(self) -> None:
        os.setsid()
        log = os.open(f"{self.folder}/daemon.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        null = os.open(os.devnull, os.O_RDWR)
        for fd, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(fd, target)
        os.closerange(3, 4096)
        os.chdir("/")
        os.environ.clear()
        os.environ.update(self.environment)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        runner_program.__file__ = runner.__file__
        forker_process.__file__ = forker.__file__
        forking.PATIENCE_S = _PATIENCE_S
        crossings.watch(Watcher(self.folder, "daemon"))
        note_groups(self.folder)
        set_boot(self.folder)
        if self.defect is not None:
            put_in(self.folder, "daemon")
        daemon.set_up_logging()
        daemon.run(GPUS, SCALE, self.settings)

    def is_down(self) -> bool:
        """Reap the daemon if it was killed. Raises `Failed` if it ended by itself."""
        if self.pid == 0:
            return True
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return False
        self.pid = 0
        self._client.close()
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            raise Failed(f"the daemon ended by itself with status {status}; {self.said()}")
        return True

    def kill(self) -> None:
        """`kill -9` of the daemon at any moment."""
        with contextlib.suppress(ProcessLookupError):
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)
        wait_until(self.is_down, "the daemon's end")

    def reboot(self, keeps_run: bool) -> None:
        """End all processes of the home as a power failure does; the next boot has another name.

        `keeps_run`: the folder of sockets lies on a disk, not in memory.
        """
        if self.pid:
            self.kill()
        for attempts in stored(self.paths.database).attempts.values():
            for each in attempts:
                if each.get("outcome") is None:  # also those whose runner never began
                    append(self.folder, KILLED, f"runners {each['serial']}")
        for victim in ("runners", "jobs"):
            shoot_attempts(self.folder, victim)
        wait_until(self._all_gone, "the end of all processes")
        self._end_driver()
        for group in self.groups():
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(group)
        if not keeps_run:
            shutil.rmtree(self.paths.run, ignore_errors=True)
        self._boots += 1
        with open(f"{self.folder}/{BOOT}", "w") as file:
            file.write(f"{self._boots:08d}-0000-0000-0000-000000000000")

    def _all_gone(self) -> bool:
        left = list(processes_of(self.folder))
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    def wait_up(self) -> None:
        """Wait until the daemon answers, unless it is killed before."""
        deadline = time.monotonic() + _START_S
        while not self.is_down():
            with contextlib.suppress(Unreachable):
                self.ask("ping")
                return
            if time.monotonic() > deadline:
                raise Failed(f"the daemon does not answer after {_START_S:.0f} s; {self.said()}")
            time.sleep(0.005)

    def ask(self, op: str, **words: Any) -> Any:
        """Ask the daemon. Raises `Unreachable` where it was killed meanwhile."""
        return self._client.ask(op, **words)

    def said(self) -> str:
        """The end of the daemon's log."""
        with open(f"{self.folder}/daemon.log", errors="replace") as file:
            return f"its log ends:\n{file.read()[-4000:]}"

    # ------------------------------------------------------------- shots

    def aim(self, point: str, nth: int, victims: Sequence[str]) -> None:
        """Have the process that crosses `point` for the `nth` time kill these and itself."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.folder}/{FIRED}")
        with open(f"{self.folder}/.{SHOT}", "w") as file:
            json.dump({"point": point, "nth": nth, "victims": list(victims)}, file)
        os.rename(f"{self.folder}/.{SHOT}", f"{self.folder}/{SHOT}")

    def has_fired(self) -> bool:
        """Return whether the shot has killed."""
        return os.path.exists(f"{self.folder}/{FIRED}")

    def withdraw(self) -> bool:
        """Withdraw a shot. False if it has killed."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.folder}/{SHOT}")
        return not self.has_fired()

    def reached(self) -> set[str]:
        """The fault points that any process of this home has crossed."""
        return set(self.lines(REACHED))

    def killed(self, victim: str) -> set[int]:
        """The serials of the attempts whose `runners` or `jobs` were killed."""
        words = (line.split() for line in self.lines(KILLED))
        return {int(serial) for kind, serial in words if kind == victim}

    def groups(self) -> set[str]:
        """The control groups that were made, whether they are there or not."""
        return set(self.lines(GROUPS))

    def lines(self, name: str) -> list[str]:
        """The lines of a file of notes."""
        try:
            with open(f"{self.folder}/{name}") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    # ------------------------------------------------------------- submitting

    def tell(self, line: str) -> None:
        """Note what a client was told."""
        append(self.folder, TOLD, line)

    def put(self, envelope: Envelope, watched: bool) -> bool:
        """Submit as `radrm submit` does. False if the submit was killed before it could tell."""
        acknowledged = self._put(envelope, watched)
        if acknowledged:
            self.tell(f"job {envelope.ticket}")
        return acknowledged

    def _put(self, envelope: Envelope, watched: bool) -> bool:
        if not watched:
            Spool(self.paths.spool).put([envelope])
            return True
        done, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                crossings.watch(Watcher(self.folder, "client"))
                Spool(self.paths.spool).put([envelope])
                os.write(tell, b"y")
            finally:
                os._exit(0)
        os.close(tell)
        os.waitpid(pid, 0)
        acknowledged = os.read(done, 1) == b"y"
        os.close(done)
        return acknowledged

    # ------------------------------------------------------------- the end

    def close(self, failed: bool) -> None:
        """End the daemon and the driver; remove the folder unless something is to be looked at."""
        self._client.close()
        if self.pid:
            os.kill(self.pid, signal.SIGTERM)
            os.waitpid(self.pid, 0)
            self.pid = 0
        self._end_driver()
        if not failed and not self.keep:
            shutil.rmtree(self.folder)

    def _end_driver(self) -> None:
        """End the simulated driver. It ends by itself where it holds no memory of a job."""
        with contextlib.suppress(DeviceError, Unreachable, OSError):
            with driver(self.paths) as client:
                pid = client.hello().pid
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the driver's end")

    def job_environment(self) -> Mapping[str, str]:
        """The environment of submitted jobs."""
        kept = {k: v for k, v in self.environment.items() if not k.startswith("RADRM_")}
        return {**kept, MARK: self.folder}


def processes_of(place: str, daemon: int = 0) -> Iterator[tuple[int, str]]:
    """The processes of a home: runners, jobs, and what daemons have started but the driver.

    Those that `daemon` itself has started are left out.
    """
    home, folder = f"HOME={place}\0".encode(), f"{place}/home/attempts/"
    for each in every_process():
        with contextlib.suppress(OSError):
            marked = home in Path("/proc", str(each.pid), "environ").read_bytes() + b"\0"
            words = " ".join(each.words)
            if "simulated.driver" in words:
                continue
            if folder in words or (marked and not (daemon and each.parent == daemon)):
                yield each.pid, words
