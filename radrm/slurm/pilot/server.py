"""The daemon of a pilot: this user's, with its state on the node's own disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from radrm.client.connection import Client, every_job
from radrm.errors import Refused, StoreError, Unreachable
from radrm.host.health.disk import network_of
from radrm.host.storage.paths import Paths
from radrm.host.storage.spool import Envelope, Spool

_START_S = 60.0
_END_S = 20.0
_POLL_S = 0.05
_ANSWER_S = 20.0


def make_home(job_id: str, checkpoints: str) -> str:
    """Make the folder of the daemon on a disk of this node, and return it. What jobs save lies in
    `checkpoints`, which outlives it. Raises `StoreError`."""
    disk = os.environ.get("TMPDIR", "")
    disk = os.path.normpath(disk) if disk.startswith("/") else "/tmp"
    kind = network_of(disk)
    if kind is not None:
        raise StoreError(
            f"{disk} lies on {kind}, over a network, where radrm's store is not safe; set TMPDIR "
            "to a folder on the node's own disk"
        )
    try:
        home = tempfile.mkdtemp(prefix=f"radrm-pilot-{job_id}-", dir=disk)
        os.symlink(checkpoints, f"{home}/checkpoints")
    except OSError as error:
        raise StoreError(f"cannot make a folder in {disk}: {error.strerror}") from None
    return home


class Server:
    """A daemon in the folder `home`. `words`: how to start it, without `gpus.until`."""

    def __init__(self, home: str, words: Sequence[str]) -> None:
        self.home = home
        self._words = [sys.executable, "-m", "radrm.cli.main", "daemon", *words]
        self._paths = Paths(home, f"{home}/run")
        self._client = Client((self._paths,), _ANSWER_S)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, until_s: float | None) -> None:
        """Start the daemon, and wait until it answers. It starts jobs that end before `until_s`.
        Raises `Refused`."""
        words = list(self._words)
        if until_s is not None:
            until = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(until_s))
            words += ["--set", f"gpus.until={until}"]
        own = {"RADRM_HOME": self.home}
        self._client.close()
        self._process = subprocess.Popen(
            words, env={**os.environ, **own}, stdin=subprocess.DEVNULL, start_new_session=True
        )
        last_s = time.monotonic() + _START_S
        while not self._client.is_up():
            if not self.alive or time.monotonic() > last_s:
                self.stop()
                raise Refused("the daemon of the pilot does not start; what it said is above")
            time.sleep(_POLL_S)

    @property
    def alive(self) -> bool:
        """Whether the daemon runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End the daemon; jobs run on."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._client.close()

    def ask(self, op: str, **words: Any) -> Any:
        """Ask the daemon. Raises `RadrmError`; `Unreachable` at once if it has ended."""
        if not self.alive:
            raise Unreachable("the daemon of the pilot has ended")
        return self._client.ask(op, **words)

    def jobs(self, ticket: str) -> list[dict[str, Any]]:
        """Return the documents of a ticket's jobs. Raises `RadrmError`; `Refused` if it has not
        taken them in."""
        return every_job(self.ask, jobs=[ticket])

    def put(self, envelope: Envelope) -> None:
        """Submit. The same envelope may come again. Raises `RadrmError`."""
        Spool(self._paths.spool).put([envelope])

    def remove(self) -> None:
        """Remove the folder. The daemon has ended."""
        link = f"{self.home}/checkpoints"
        if os.path.islink(link):
            os.unlink(link)
        shutil.rmtree(self.home, ignore_errors=True)
