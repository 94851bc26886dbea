"""The files to which a job's script sends its programs' output, and how they end.

radrm judges a job by its own logs. A script that redirects its program, or shows its output with
`tee`, hides how that ended, so a hint names the file. It is no evidence: another job may
write to it, too.

The script is not run, and no shell reads it: names that it writes out, and variables whose value it
or the job's environment has, are known; others are not. A child that has become the submitter opens
a few regular files of that user that were written since the attempt began, and reads their ends.
"""

from __future__ import annotations

import os
import re
import stat
from functools import partial

from radrm.host.attempts.tails import Look
from radrm.host.storage.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.host.attempts.folder import Fields

FIELD = "redirected"
"""The key in an exit record: pairs of a path and the end of that file."""
_MOST_FILES = 2
_MOST_NAMES = 16
"""Names that are looked at: the last ones of a script."""
_MOST_SCRIPT = 64 * 1024
_MOST_BYTES = 16 * 1024
_WORD = r"(\"[^\"\n]{1,300}\"|'[^'\n]{1,300}'|[^\s;|&<>()\"'`]{1,300})"
_TARGET = re.compile(
    r"(?:(?<![<>&\d-])(?:[12]|&)?>>?\|?"
    r"|\btee[ \t]{1,9}(?:(?:-a|-i|-p|--append)[ \t]{1,9}){0,4})"
    rf"[ \t]{{0,9}}{_WORD}"
)
_ASSIGNED = re.compile(rf"^[ \t]{{0,40}}(?:export[ \t]{{1,9}})?([A-Za-z_]\w{{0,60}})={_WORD}", re.M)
_ENTERED = re.compile(rf"^[ \t]{{0,40}}cd[ \t]{{1,9}}{_WORD}", re.M)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w{0,60})\}|([A-Za-z_]\w{0,60}))")
_NOT_PLAIN = re.compile(r"[\0$`*?\n]")


def names_in(text: str, environment: dict[str, str]) -> list[str]:
    """Return the files that a script's redirections and `tee` name, in their order, each once."""
    known = dict(environment)
    for found in _ASSIGNED.finditer(text):
        value = _expanded(found[2], known)
        if value is not None:
            known[found[1]] = value
    folders = [""]
    folders += filter(None, (_expanded(found[1], known) for found in _ENTERED.finditer(text)))
    names: dict[str, None] = {}
    for found in _TARGET.finditer(text):
        name = _expanded(found[1], known)
        if name is not None and not name.startswith(("/dev/", "/proc/")):
            names |= dict.fromkeys(os.path.join(folder, name) for folder in folders[-3:])
    return list(names)[-_MOST_NAMES:]


def _expanded(word: str, known: dict[str, str]) -> str | None:
    """Return what the shell makes of a word; None: it takes a shell to know."""
    if word.startswith("'"):
        return word[1:-1]
    text = _VARIABLE.sub(lambda found: known.get(found[1] or found[2], "\0"), word.strip('"'))
    if text.startswith("~/"):
        text = known.get("HOME", "\0") + text[1:]
    return None if not text or _NOT_PLAIN.search(text) else text[:4096]


def looks_at_redirected(launch: Fields, began_s: float) -> list[Look]:
    """The field `FIELD`, for files written since `began_s` (wall seconds); empty: none."""
    text = launch["script"] if launch["script"] is not None else " ".join(launch["argv"] or ())
    names = names_in(text[-_MOST_SCRIPT:], launch["environment"])
    if not names:
        return []
    own = [os.path.join(launch["cwd"], launch[which]) for which in ("stdout", "stderr")]
    send = partial(_send, launch["cwd"], names, own, began_s)
    return [Look(send, _MOST_FILES * (_MOST_BYTES + 8192), _fields)]


def _fields(sent: bytes | None) -> Fields:
    data, found = sent or b"", []
    while data:
        sizes, _, data = data.partition(b"\n")
        path, end = map(int, sizes.split())
        if len(data) < path + end:
            break
        found.append([os.fsdecode(data[:path]), data[path : path + end].decode("utf-8", "replace")])
        data = data[path + end :]
    return {FIELD: found} if found else {}


def _send(cwd: str, names: list[str], own: list[str], began_s: float, target: int) -> None:
    """Write path and end of the files that were written last, each behind a line of its sizes."""
    logs = {_identity(os.stat(path)) for path in own if os.path.exists(path)}
    found: list[tuple[float, str, bytes]] = []
    for name in names:
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            file = os.open(os.fsencode(os.path.join(cwd, name)), flags)
        except (OSError, ValueError):
            continue
        try:
            its = os.fstat(file)
            mine = stat.S_ISREG(its.st_mode) and its.st_uid == os.geteuid()
            # The clock of a file's times is a tick behind.
            written = mine and its.st_size and its.st_mtime >= began_s - 0.02
            if written and _identity(its) not in logs:
                logs.add(_identity(its))
                begin = max(0, its.st_size - _MOST_BYTES)
                found.append((its.st_mtime, name, os.pread(file, _MOST_BYTES, begin)))
        finally:
            os.close(file)
    for _, name, data in sorted(found)[-_MOST_FILES:]:
        path = os.fsencode(name)
        write_all(target, b"%d %d\n" % (len(path), len(data)) + path + data)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
