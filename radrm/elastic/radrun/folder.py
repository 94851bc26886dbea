"""The files by which `radrun` and the daemon speak: written whole, and read with distrust."""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import Any, Literal

from msgspec import Struct

from radrm.elastic.radrun import placement
from radrm.elastic.radrun.placement import VERSION, Number, Placement
from radrm.host.storage.files import fsync_folder, write_durably

# ------------------------------------------------------------------
# The files by which `radrun` and the daemon speak: `$RADRM_ELASTIC_DIR`, one folder an attempt.
#
#     placement-G.json   the daemon: placement G of the attempt; 1 is there at its launch
#     begun-G            its first maker decides: `radrun` begins the resize to G, or the daemon has
#                        withdrawn it
#     resized-G.json     `radrun`: the tasks that run now, or why the resize failed
#     shares.json        the daemon: the CPUs of each task, changed while it runs
#     tasks.json         `radrun`: the process of each task, and how it ended
#
# A file is written under another name, synced and renamed, so that a reader finds it whole or not
# at all. Whatever is read is bounded: the folder belongs to the job's user.


MOST_BYTES = 256 * 1024
_MOST_NAMES = 10_000
_LONGEST_REASON = 500
_PLACEMENT = re.compile(r"placement-([1-9][0-9]{0,8})\.json")


class Folder:
    """The files of one attempt. Methods raise `OSError` if the folder cannot be used."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._shares: tuple[int, int] | None = None

    def newest(self) -> int:
        """The largest number of a placement; 0 if there is none."""
        newest = 0
        with os.scandir(self.path) as entries:
            for count, entry in enumerate(entries):
                found = _PLACEMENT.fullmatch(entry.name)
                newest = max(newest, int(found[1])) if found else newest
                if count == _MOST_NAMES:
                    break
        return newest

    def present(self) -> int:
        """The number of the placement that the job has now: 1, or the last that was carried out."""
        newest = self.newest()
        for number in range(newest, max(1, newest - _MOST_NAMES), -1):
            with contextlib.suppress(OSError, ValueError):
                fields = json.loads(self._read(f"resized-{number}.json"))
                if isinstance(fields, dict) and "tasks" in fields:
                    return number
        return 1

    def placement(self, number: int) -> Placement:
        """Placement `number`. Raises `ValueError` with one line about what is wrong."""
        return placement.parse(self._read(f"placement-{number}.json"), number)

    def begin(self, number: int) -> bool:
        """Begin the resize to a placement; False if the daemon has withdrawn it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self._path(f"begun-{number}"), flags, 0o600)
        except FileExistsError:
            return False
        with open(fd, "w") as file:
            json.dump({"version": VERSION, "by": "radrun"}, file)
            file.flush()
            os.fsync(fd)
        fsync_folder(self.path)
        return True

    def begun(self, number: int) -> bool:
        """Whether the resize to a placement has begun or was withdrawn."""
        return os.path.lexists(self._path(f"begun-{number}"))

    def is_answered(self, number: int) -> bool:
        """Whether there is an answer to placement `number`: the daemon goes by it."""
        return os.path.lexists(self._path(f"resized-{number}.json"))

    def resized(self, number: int, tasks: list[tuple[str, int]]) -> None:
        """Tell the daemon that these tasks run, and no process of the tasks before."""
        self._answer(number, {"tasks": [[role, task] for role, task in tasks]})

    def failed(self, number: int, reason: str) -> None:
        """Tell the daemon that the tasks before go on, and why."""
        self._answer(number, {"failed": reason[:_LONGEST_REASON]})

    def _answer(self, number: int, fields: dict[str, Any]) -> None:
        document = {"version": VERSION, "generation": number, **fields}
        self._write(f"resized-{number}.json", document)

    def write_tasks(self, number: int, tasks: list[dict[str, Any]]) -> None:
        """Tell the daemon which processes the tasks of placement `number` are."""
        document = {"version": VERSION, "generation": number, "tasks": tasks}
        self._write("tasks.json", document)

    def new_shares(self) -> dict[tuple[str, int], float | None] | None:
        """The CPUs of each task if the daemon has changed them since the last call."""
        try:
            found = os.stat(self._path("shares.json"))
        except FileNotFoundError:
            return None
        before, self._shares = self._shares, (found.st_mtime_ns, found.st_ino)
        if self._shares == before:
            return None
        shares = placement.decoded(self._read("shares.json"), _Shares)
        return {(each.role, each.task): each.cpus for each in shares.tasks}

    # ---------------------------------------------------------------- one file

    def _path(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _read(self, name: str) -> bytes:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(os.open(self._path(name), flags), "rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise ValueError(f"it is longer than {MOST_BYTES // 1024} KiB")
        return text

    def _write(self, name: str, document: dict[str, Any]) -> None:
        write_durably(self._path(name), json.dumps(document).encode())


class _Share(Struct):
    role: str
    task: int
    cpus: Number | None = None


class _Shares(Struct):
    version: Literal[1]
    tasks: list[_Share]
