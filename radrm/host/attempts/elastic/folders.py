"""The folders of attempts whose tasks can change: `$RADRM_ELASTIC_DIR` of each.

    state/elastic/      the daemon's
        SERIAL/         the attempt's: mode 0700, its user's (`names.py` lists its files)

Theory of operation. The daemon makes a folder and its first files as its own, and then gives it
away. From then on only a process that has become the owner looks into it (`acting.py`): it has
limited time, and a thread waits for it, never the loop. Its output is as untrusted as the folder.
What is asked about one attempt is done in that order, for all of it is done by the same thread.
Removals have a thread of their own: a user with many full folders must not delay the answers of
others. The loop looks only at the names of folders, because their users may mount file systems
there that never answer.

What a restart sees: the folders. Those of live attempts stay; `remove_left` removes all others,
also one that a killed daemon has made and not given away.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from radrm.host.attempts.elastic import acting
from radrm.host.attempts.elastic.names import MOST_BYTES
from radrm.host.crossings import crossed
from radrm.host.storage.files import write_durably

log = logging.getLogger("radrm")

Step: TypeAlias = tuple[str, ...]
"""One step of `acting.py`."""
Done: TypeAlias = "list[dict[str, Any]]"
"""The answers to steps, one for each."""

_AT_ONCE = 4
_GRACE_S = 2.0
"""Real seconds after its limit at which a process that has not ended itself is ended."""
_MOST_OUTPUT = 8 * MOST_BYTES
_MOST_CLEARS = 5
_LONGEST_SERIAL = 16


class ElasticFolders:
    """The folders below `path`. `give_away`: each one gets its job's user as owner."""

    def __init__(self, path: str, give_away: bool) -> None:
        self.path = path
        self._give_away = give_away
        self._lanes = [ThreadPoolExecutor(1, f"elastic-{lane}") for lane in range(_AT_ONCE)]
        self._removals = ThreadPoolExecutor(1, "elastic-removal")

    def make(self, serial: int, uid: int, gid: int, files: Mapping[str, str]) -> str:
        """Make an attempt's folder with these files, and return its path. Raises `OSError`."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)  # it was removed while the daemon ran
            os.chmod(self.path, 0o711 if self._give_away else 0o700)
        folder = self.of(serial)
        os.mkdir(folder, 0o700)
        crossed("radrun's folder made")
        for name, text in files.items():
            write_durably(os.path.join(folder, name), text.encode())
            if self._give_away:
                os.chown(os.path.join(folder, name), uid, gid, follow_symlinks=False)
        if self._give_away:
            os.chown(folder, uid, gid, follow_symlinks=False)
        return folder

    def of(self, serial: int) -> str:
        """The path of an attempt's folder."""
        return f"{self.path}/{serial}"

    def exists(self, serial: int) -> bool:
        """Return whether an attempt has a folder."""
        return serial in self._serials()

    def act(self, serial: int, steps: Sequence[Step], then: Callable[[Done | None], None]) -> None:
        """Take steps in an attempt's folder, and call `then` with the answers, in a thread."""
        self._lane(serial).submit(lambda: then(act(self.of(serial), steps)))

    def remove(self, serial: int) -> None:
        """Remove the folder of an attempt that has ended, in a thread."""
        if self.exists(serial):
            self._remove_later(serial)

    def _remove_later(self, serial: int) -> None:
        """Remove a folder after what is asked about its attempt now."""

        def pass_on() -> None:
            with contextlib.suppress(RuntimeError):  # closed: the next daemon removes it
                self._removals.submit(self._remove, self.of(serial))

        self._lane(serial).submit(pass_on)

    def remove_left(self, live: Collection[int]) -> None:
        """Remove the folders of all attempts but these, in a thread."""
        for serial in self._serials():
            if serial not in live:
                self._remove_later(serial)

    def close(self) -> None:
        """Finish what is under way, which takes limited time; the folders stay."""
        for lane in (*self._lanes, self._removals):
            lane.shutdown(cancel_futures=True)

    def _lane(self, serial: int) -> ThreadPoolExecutor:
        return self._lanes[serial % _AT_ONCE]

    def _serials(self) -> list[int]:
        with contextlib.suppress(OSError):
            names = [n for n in os.listdir(self.path) if n.isascii() and n.isdigit()]
            return [int(name) for name in names if len(name) < _LONGEST_SERIAL]
        return []

    def _remove(self, folder: str) -> None:
        found = clear(folder)
        crossed("radrun's folder cleared")
        try:
            os.rmdir(folder)
            crossed("radrun's folder removed")
        except FileNotFoundError:
            pass
        except OSError as error:
            why = found.get("error") or error.strerror
            log.warning("%s is left: %s; the next daemon tries again", folder, str(why))


def clear(folder: str) -> dict[str, Any]:
    """Remove what is in a folder, as its owner. Returns the last answer of `acting.py`."""
    found: dict[str, Any] = {}
    for _ in range(_MOST_CLEARS):
        answers = act(folder, [("clear",)])
        found = answers[0] if answers else {"error": "it could not be looked into"}
        if not found.get("left"):
            break
    return found


def act(folder: str, steps: Sequence[Step]) -> Done | None:
    """Take steps in a folder as its owner, and return the answers, one for each.

    None: the process did not answer. Then it is not known which steps it has taken.
    """
    request = json.dumps({"folder": folder, "steps": steps}).encode("ascii")
    output = _output_of([sys.executable, "-I", "-S", acting.__file__], request)
    try:
        found = json.loads(output)
    except (ValueError, RecursionError):
        return None
    sound = isinstance(found, list) and len(found) == len(steps)
    return found if sound and all(isinstance(each, dict) for each in found) else None


def _output_of(command: Sequence[str], request: bytes) -> bytes:
    """The output of a process; nothing if it is too long or comes too late."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        log.warning("no process for the folder of an attempt can be started: %s", error.strerror)
        return b""
    assert process.stdin is not None and process.stdout is not None
    until, output = time.monotonic() + acting.LIMIT_S + _GRACE_S, b""
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin as to:
            to.write(request)  # it reads all of this before it changes its user
        source = process.stdout.fileno()
        while len(output) <= _MOST_OUTPUT:
            left_s = until - time.monotonic()
            if left_s <= 0 or not select.select([source], [], [], left_s)[0]:
                return b""
            part = os.read(source, 1 << 16)
            if not part:
                return output
            output += part
        return b""
    finally:
        process.stdout.close()
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)  # a process that hangs in the kernel takes longer
