"""What root runs when the unit starts: the script, its Python, and all that Python may import.

Theory of operation. A new Python says which folders it searches and which files it has loaded once
the daemon is imported. It starts as systemd starts one, without variables of a shell. Those folders
are checked whole, because a later import may take any file of them. So are packages that were
installed as editable, which lie in none of them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence

from msgspec import Struct

from radrm.errors import Refused, plain
from radrm.host.service.ownership import Fault, Ownership

_LIMIT_S = 60.0
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9/._+~-]*")
"""Paths that a unit file and a script's first line hold as they are."""
_LARGEST_SCRIPT = 1 << 16
_ASK = """
import json, sys
import radrm.cli.main, radrm.daemon.main
files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
with open("/proc/self/maps") as maps:
    files |= {line.split(None, 5)[5].rstrip() for line in maps if line.count("/")}
files = sorted(file for file in files if file and file.startswith("/"))
own = list(radrm.__path__)
for module in list(sys.modules.values()):
    if module.__name__.startswith("__editable__"):
        own += getattr(module, "MAPPING", {}).values()
        own += sum(getattr(module, "NAMESPACES", {}).values(), [])
json.dump({"folders": [*sys.path[1:], *own], "files": files, "prefix": sys.prefix}, sys.stdout)
"""


class Code(Struct, frozen=True):
    """Places that root runs. All of `folders` counts, whatever is in them."""

    folders: tuple[str, ...]
    files: tuple[str, ...]


def script(folders: Sequence[str] = ()) -> str:
    """The path of this radrm's `radrmd`: in `folders`, by default beside its Python or where pip
    puts scripts. Raises `Refused` if a unit cannot start it."""
    folders = folders or (os.path.dirname(sys.executable), sysconfig.get_path("scripts"))
    paths = [os.path.join(folder, "radrmd") for folder in folders]
    path = next(filter(os.path.exists, paths), paths[0])
    if not _PLAIN_PATH.fullmatch(path):
        raise Refused(
            f"{path!r} has characters that a unit file cannot hold; install radrm in a folder "
            "such as /opt/radrm"
        )
    interpreter(path)
    return path


def interpreter(radrmd: str) -> str:
    """The Python that runs the script `radrmd`. Raises `Refused` if its first line names none."""
    try:
        with open(radrmd, "rb") as file:
            first = file.read(_LARGEST_SCRIPT).split(b"\n")[0]
    except OSError as error:
        raise Refused(
            f"the unit starts {radrmd}, which cannot be read: {error.strerror}; install radrm "
            "with pip in a virtual environment"
        ) from None
    named = os.fsdecode(first.removeprefix(b"#!").strip())
    if not first.startswith(b"#!/") or not _PLAIN_PATH.fullmatch(named) or named == "/bin/sh":
        raise Refused(
            f"the first line of {radrmd} names no Python ({plain(named[:80])!r}); install radrm "
            "with pip in a virtual environment with a short path, such as /opt/radrm"
        )
    return named


def code_of(radrmd: str) -> Code:
    """What root runs if a unit starts this script. Raises `Refused` if its Python cannot tell."""
    python = interpreter(radrmd)
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
        told = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError):
        told = None
    if told is None:
        raise Refused(f"{python} cannot import radrm; see why: {python} -c 'import radrm'")
    config = os.path.join(told["prefix"], "pyvenv.cfg")
    # Python searches the script's own folder first.
    folders = os.path.dirname(os.path.realpath(radrmd)), *told["folders"]
    return Code(tuple(folders), (radrmd, python, config, *told["files"]))


def fault_of(code: Code, ownership: Ownership) -> Fault | None:
    """The first place of the code that somebody besides root can change. Raises OSError."""
    ways: Iterable[Fault | None] = map(ownership.way, code.files)
    trees: Iterable[Fault | None] = map(ownership.tree, code.folders)
    for found in (*ways, *trees):
        if found is not None:
            return found
    return None
