"""Read what a job has proven to have saved, from its checkpoint folder, as its user. Also the last
report of one that ended while no daemon ran.

    python -I -S saved.py FOLDER

reads that of the attempt in FOLDER and prints it. The daemon runs this for attempts that it adopts
or whose runner was killed; a runner looks at the attempt's end.

The proof is `saved.json` (`radrm/report.py`), which a job replaces as a whole. For programs that do
not write it, the time of the newest other file tells whether they have saved since some moment. A
folder's own time does not: it changes when a file is removed.

A child that has become the submitter opens these files, reads a limited part of them, and has
limited time (`tails.Look`): the folder may lie on a file system that does not answer, or hold
anything.
"""

from __future__ import annotations

import json
import os
import stat
import sys

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.attempts import folder as attempts
from radrm.host.attempts.tails import Look, read_as_user
from radrm.host.storage.files import write_all
from radrm.host.wall import wall_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.host.attempts.folder import Fields

FOLDER_VARIABLE = "RADRM_CHECKPOINT_DIR"
FILE = "saved.json"
LAST = ".progress.json"
"""The last report of a program that no daemon has taken; read once."""
NUMBERS = ("step", "total", "epoch", "loss", "work_done", "at")
"""The keys of `saved.json` that count; `at` is when it was written, in wall seconds: if it does not
say so, the file's own time."""
NOTHING: Fields = {"saved": None, "newest_s": None, "reported": None}
"""The fields when nothing is known."""
_DRAFT = f"{FILE}."
_MOST_BYTES = 4096
_MOST_NAMES = 2000
_MOST_NUMBER = 1e300
_MOST_AHEAD_S = 60.0
"""How far a file server's clock may be ahead. A file with a later time has been given that time; it
does not tell when it was written."""


def looks_at_saved(launch: Fields) -> list[Look]:
    """`saved`: the numbers of the job's `saved.json`; `newest_s`: the time of the newest file in
    its folder, in wall seconds; `reported`: its last report, if no daemon has taken it. None: none,
    or not to be read."""
    path = launch["environment"].get(FOLDER_VARIABLE)
    return [Look(lambda out: _send(path, out), 2 * _MOST_BYTES + 64, _fields)] if path else []


def remove_empty(launch: Fields) -> bool:
    """Remove the job's folder if nothing is in it; True if there is nothing to look at. The next
    attempt gets another one. The folder above is the daemon's, and no link is followed."""
    try:
        os.rmdir(launch["environment"].get(FOLDER_VARIABLE) or "")
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _fields(data: bytes | None) -> Fields:
    times, _, text = (data or b"").partition(b"\n")
    try:
        newest_s, written_s, length = map(float, times.split())
        saved, reported = parse(text[: int(length)]), numbers_in(text[int(length) :])
    except (ValueError, OverflowError):
        return dict(NOTHING)
    if saved is not None:
        saved.setdefault("at", written_s)
    if reported is not None and "at" not in reported:
        reported = None
    newest = newest_s if 0 < newest_s < _MOST_NUMBER else None
    return {"saved": saved, "newest_s": newest, "reported": reported}


def parse(data: bytes) -> dict[str, float] | None:
    """Return the numbers of a `saved.json`; None if it is no proof of a save."""
    numbers = numbers_in(data)
    return numbers if numbers is not None and "step" in numbers else None


def numbers_in(data: bytes) -> dict[str, float] | None:
    """Return the numbers of such a file; None if they are not sound."""
    if not data:
        return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    numbers = {key: float(found[key]) for key in NUMBERS if _is_number(found.get(key))}
    sound = (
        all(numbers.get(key, 0.0) >= 0.0 for key in ("step", "total", "epoch", "at"))
        and 0.0 <= numbers.get("work_done", 0.0) <= 1.0
        and numbers.get("total", _MOST_NUMBER) >= numbers.get("step", 0.0)
    )
    if not sound:
        return None
    total = numbers.get("total")
    if total and "step" in numbers:
        numbers.setdefault("work_done", numbers["step"] / total)
    return numbers


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return -_MOST_NUMBER < value < _MOST_NUMBER  # NaN is not, either


def _send(path: str, target: int) -> None:
    """Write two times, of the newest other file and of `saved.json`, its length, its bytes, and
    those of the last report, which is removed: a folder with nothing else is removed, too."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    folder = os.open(path.encode("utf-8", "surrogateescape"), flags)
    try:
        newest_s = _newest_s(folder, [_MOST_NAMES])
        written_s, text = _read(folder, FILE)
        _, last = _read(folder, LAST)
        write_all(target, b"%r %r %d\n" % (newest_s, written_s, len(text)) + text + last)
        if last:
            os.unlink(LAST, dir_fd=folder)
    finally:
        os.close(folder)


def _read(folder: int, name: str) -> tuple[float, bytes]:
    """Return when a small file was written, and its bytes; 0 and none if it is not to be read."""
    try:
        # Not blocking: it may be a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(name, flags, dir_fd=folder)
        try:
            found = os.fstat(file)
            if stat.S_ISREG(found.st_mode) and found.st_size <= _MOST_BYTES:
                return max(0.0, found.st_mtime), os.read(file, _MOST_BYTES)
        finally:
            os.close(file)
    except OSError:
        pass
    return 0.0, b""


def _newest_s(folder: int, left: list[int], deeper: bool = True) -> float:
    """Return when the newest complete file was written, there or one level below; 0: never.

    `left`: how many names are looked at.
    """
    newest_s, latest_s = 0.0, wall_s() + _MOST_AHEAD_S
    with os.scandir(folder) as entries:
        for entry in entries:
            left[0] -= 1
            if left[0] < 0:
                break
            name = entry.name
            own = deeper and name == FILE
            if own or name.startswith((".", _DRAFT)) or name.endswith(".tmp"):
                continue
            try:
                if entry.is_file(follow_symlinks=False):
                    written_s = entry.stat(follow_symlinks=False).st_mtime
                    newest_s = max(newest_s, written_s if written_s < latest_s else 0.0)
                elif deeper and entry.is_dir(follow_symlinks=False):
                    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                    below = os.open(entry.name, flags, dir_fd=folder)
                    try:
                        newest_s = max(newest_s, _newest_s(below, left, deeper=False))
                    finally:
                        os.close(below)
            except OSError:
                continue
    return newest_s


def main(folder: str) -> int:
    """Print what the job of an attempt has saved, as JSON, with the time of the look."""
    launch, _ = attempts.read_record(folder, attempts.LAUNCH)
    found = {} if launch is None else read_as_user(launch, looks_at_saved(launch))
    print(json.dumps({**NOTHING, **found, **attempts.now()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
