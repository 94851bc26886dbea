"""Which files of a folder belong into a copy: those that git would take, else all but `.git`.

Logs under the names that radrm gives them are left out.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess

from radrm.errors import BadFile
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_FILES = 20_000
MOST_BYTES = 512 * 1024 * 1024
_MOST_LISTED = 64 * 1024 * 1024
"""Bytes of names that git may print: room for ten times as many files."""
_GIT_S = 60.0
_GIT = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_OF_ANOTHER_REPOSITORY = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"})
_LOG = re.compile(r"(.*/)?radrm-\d+(_\d+)?(\.attempt\d+)?\.(out|err)", re.DOTALL)
_STEP = "list what is no code in .gitignore, or name a smaller folder: --snapshot=DIR"


class Found(Record):
    """A file or link of the folder, by its path there. `size` is in bytes, 0 for a link."""

    path: str
    size: int
    changed_ns: int
    link: bool


def files_of(folder: str) -> list[Found]:
    """The files and links to copy, sorted. Raises `BadFile` for none, and for too many or too
    large ones."""
    named = _of_git(folder)
    found: dict[str, Found] = {}
    size = 0
    for path in _walk(folder, "") if named is None else _below(folder, named):
        each = None if _LOG.fullmatch(path) else _look(folder, path)
        if each is None or path in found:
            continue
        found[path] = each
        size += each.size
        if len(found) > MOST_FILES:
            raise BadFile(
                f"--snapshot: {folder} has more than {MOST_FILES} files, which is the most; {_STEP}"
            )
    if size > MOST_BYTES:
        raise BadFile(
            f"--snapshot: the files of {folder} have {size >> 20} MiB, and {MOST_BYTES >> 20} MiB "
            f"is the most; {_STEP}"
        )
    if not found:
        left_out = "" if named is None else " that git does not ignore"
        raise BadFile(f"--snapshot: {folder} has no files{left_out}; name another folder")
    return [found[path] for path in sorted(found)]


def _look(folder: str, path: str) -> Found | None:
    """What lies there; None for nothing, and for what is neither a file nor a link."""
    try:
        seen = os.lstat(os.path.join(folder, path))
    except OSError:
        return None  # git also lists files that were removed
    link = stat.S_ISLNK(seen.st_mode)
    if not link and not stat.S_ISREG(seen.st_mode):
        return None
    return Found(path, 0 if link else seen.st_size, seen.st_mtime_ns, link)


def _of_git(folder: str) -> list[str] | None:
    """The files that git knows there and those that it does not ignore; None without a work tree.

    Raises `BadFile` if git prints no end of them.
    """
    environment = {k: v for k, v in os.environ.items() if k not in _OF_ANOTHER_REPOSITORY}
    try:
        process = subprocess.Popen(
            ["git", "-C", folder, "-c", "core.fsmonitor=false", *_GIT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    except OSError:
        return None  # no git here
    with process:
        assert process.stdout is not None
        data = process.stdout.read(_MOST_LISTED + 1)
        if len(data) > _MOST_LISTED:
            process.kill()
            raise BadFile(f"--snapshot: git lists too many files in {folder}; {_STEP}")
        if process.wait(_GIT_S) != 0:
            return None
    return [os.fsdecode(name) for name in data.split(b"\0") if name]


def _below(folder: str, names: Iterable[str]) -> Iterator[str]:
    """The files with these names; of a folder (a submodule), those in it."""
    for name in names:
        if name.endswith("/") or _is_folder(os.path.join(folder, name)):
            yield from _walk(folder, name.rstrip("/"))
        else:
            yield name


def _walk(folder: str, below: str) -> Iterator[str]:
    """The paths of all files below a folder, in it and in its folders; links are not followed."""
    try:
        with os.scandir(os.path.join(folder, below)) as entries:
            found = sorted((e.name, e.is_dir(follow_symlinks=False)) for e in entries)
    except OSError as error:
        where = os.path.join(folder, below).rstrip("/")
        raise BadFile(f"--snapshot: cannot read the folder {where}: {error.strerror}") from None
    for name, is_folder in found:
        path = os.path.join(below, name)
        if not is_folder:
            yield path
        elif name != ".git":
            yield from _walk(folder, path)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
