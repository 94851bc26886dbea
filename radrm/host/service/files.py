"""The files of the service: rendered, marked as ours, and compared with what is there.

A file's first line is a mark with the digest of the rest. So a file that is ours and unchanged can
be replaced or removed, and one that an administrator has edited is never lost.
"""

from __future__ import annotations

import os
import re
import stat
from enum import Enum
from pathlib import Path

from msgspec import Struct

from radrm.errors import Refused
from radrm.host.storage.paths import SYSTEM_UNITS

UNIT = "radrmd.service"
UNIT_PATH = SYSTEM_UNITS[0]
TMPFILES_PATH = "/etc/tmpfiles.d/radrm.conf"
PAGE_UNIT = "radrm-page.service"
PAGE_PATH = f"/etc/systemd/system/{PAGE_UNIT}"
COMMAND_PATH = "/usr/local/bin/radrm"
_ON_EVERY_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
TEMPLATES = Path(__file__).parent / "templates"
_LARGEST = 1 << 20
_MARK = "# Written by radrm service install. To change it: sudo systemctl edit radrmd. sha256:"
_OWN_MARK = (
    "# Written by radrm service install --user. To change it: systemctl --user edit radrmd. sha256:"
)
_PAGE_MARK = _MARK.replace("edit radrmd", "edit radrm-page")
_MARKS = "|".join(map(re.escape, (_MARK, _OWN_MARK, _PAGE_MARK)))
_MARKED = re.compile(f"(?:{_MARKS})([0-9a-f]{{64}})\n")
_SIMULATED = re.compile(r"sim:[A-Za-z0-9:.,+x-]+")
"""Simulated GPUs that a unit file holds as they are."""


class State(str, Enum):
    """What is at a path, compared with what this release writes there."""

    NEW = "new"
    SAME = "same"
    OLDER = "older"
    """Ours and unchanged, of another release or another place."""
    EDITED = "edited"
    """Not ours, or changed since we wrote it."""


class File(Struct, frozen=True):
    """A file or link that belongs to the service. Of `text` and `leads_to`, one is given."""

    path: str
    text: str | None = None
    leads_to: str | None = None


def files_of(radrmd: str) -> tuple[File, ...]:
    """The files for the service that starts the script `radrmd`. Its folder becomes reachable as
    `radrm` on every PATH, unless it is there already."""
    found = [
        File(UNIT_PATH, text=unit(radrmd)),
        File(TMPFILES_PATH, text=_marked((TEMPLATES / "radrm.conf").read_text())),
    ]
    folder = os.path.dirname(radrmd)
    if folder not in _ON_EVERY_PATH:
        found.append(File(COMMAND_PATH, leads_to=f"{folder}/radrm"))
    return tuple(found)


def unit(radrmd: str) -> str:
    """The unit that starts the script `radrmd`, an absolute path without odd characters."""
    return _marked((TEMPLATES / UNIT).read_text().replace("@RADRMD@", radrmd))


def page_unit(radrmd: str, group: str, host: str) -> File:
    """The unit of the page, for a web server of this group and under this name."""
    text = (TEMPLATES / PAGE_UNIT).read_text()
    radrm = f"{os.path.dirname(radrmd)}/radrm"
    for mark, value in {"@RADRM@": radrm, "@GROUP@": group, "@HOST@": host}.items():
        text = text.replace(mark, value)
    return File(PAGE_PATH, text=_marked(text, _PAGE_MARK))


def page_there(root: str) -> tuple[File, ...]:
    """The page's unit, if one is installed; what it should hold is not known here."""
    return (File(PAGE_PATH, text=""),) if os.path.lexists(under(root, PAGE_PATH)) else ()


def own_unit(radrmd: str, config_home: str, gpus: str | None = None) -> File:
    """The unit of one user's own daemon, in the folder of the user's configuration.

    `gpus`: simulated ones. Raises `Refused` for some that a unit cannot hold.
    """
    if gpus is not None and not _SIMULATED.fullmatch(gpus):
        raise Refused(f"--gpus={gpus[:60]!r} is not sim:SPEC, as sim:2xA100-40GB")
    command = f"{radrmd} --private" + ("" if gpus is None else f" --gpus {gpus}")
    text = (TEMPLATES / "radrmd-user.service").read_text().replace("@RADRMD@", command)
    return File(f"{config_home}/systemd/user/{UNIT}", text=_marked(text, _OWN_MARK))


def _marked(text: str, mark: str = _MARK) -> str:
    return f"{mark}{_digest(text)}\n{text}"


def _digest(text: str) -> str:
    import hashlib  # `radrm doctor` needs only the paths above

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


# ------------------------------------------------------------------ what is there


def state_of(file: File, root: str = "/") -> State:
    """What is at the file's path below `root`. Raises OSError."""
    now = current(under(root, file.path))
    if now is None:
        return State.NEW
    if (now.text, now.leads_to) == (file.text, file.leads_to):
        return State.SAME
    # A link that leads elsewhere has no mark: nothing proves that it is ours.
    return State.OLDER if now.text is not None and is_unchanged(now.text) else State.EDITED


def current(path: str) -> File | None:
    """What is at `path`: a text or a link; None for nothing. Raises OSError, and `Refused` for
    anything else."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        return File(path, leads_to=os.readlink(path))
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
        raise Refused(f"{path} is no file that radrm knows; move it away")
    with open(path, "rb", opener=_no_link) as file:
        return File(path, text=file.read(_LARGEST).decode("utf-8", "surrogateescape"))


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def is_unchanged(text: str) -> bool:
    """True for a text that radrm has written and nobody has changed."""
    mark = _MARKED.match(text)
    return mark is not None and _digest(text[mark.end() :]) == mark[1]


def under(root: str, path: str) -> str:
    """The place of an absolute path in the system whose files are below `root`."""
    return os.path.join(root, path.lstrip("/"))


def difference(file: File, root: str) -> list[str]:
    """The lines of a diff from what is there to what this release writes."""
    from difflib import unified_diff  # as rarely as a file was changed by hand

    path = under(root, file.path)
    now = current(path)
    old = [] if now is None else _lines(now)
    return [
        line.rstrip("\n")
        for line in unified_diff(old, _lines(file), f"{path} (now)", f"{path} (this release)", n=1)
    ]


def _lines(file: File) -> list[str]:
    if file.text is None:
        return [f"a link to {file.leads_to}\n"]
    return file.text.splitlines(keepends=True)
