"""Slurm as radrm meets it: its own commands, run and read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from radrm.errors import RadrmError, Refused, plain
from radrm.host.processes.procfs import groups_of_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


# ------------------------------------------------------------------
# The mark in a `job_submit.lua` by which its age is known.
#
# `radrm slurm setup` prints the script with this mark, and `radrm doctor --slurm` looks for it. A
# site may have other rules in the same file, so the mark may be on any line.


NAME = "job_submit.lua"
"""The name of the file; it lies beside slurm.conf."""
FORMAT = 4
"""Raise it when the rules of the script change."""
MARK = f"-- radrm job_submit rules, format {FORMAT}"
_MARK = re.compile(r"^\s*-- radrm job_submit rules, format (\d{1,6})\s*$", re.ASCII | re.MULTILINE)
_NAMED = "[A-Za-z0-9_-]{1,64}"
_TABLE = re.compile(
    rf'^local RADRM = \{{\s*partition = "({_NAMED})",\s*gres = "({_NAMED})",',
    re.ASCII | re.MULTILINE,
)


def format_of(text: str) -> int | None:
    """Return the format of radrm's rules in a script; None: it has none of them."""
    found = _MARK.search(text)
    return None if found is None else int(found[1])


def names_of(text: str) -> tuple[str, str] | None:
    """Return the partition and the GRES of radrm's rules in a script; None: they are not there."""
    found = _TABLE.search(text)
    return None if found is None else (found[1], found[2])


def knows_nodes(text: str) -> bool:
    """Return whether radrm's rules in a script know the GPUs of the nodes."""
    return re.search(r"^ {6}\{ names = \"", text, re.MULTILINE) is not None


# ------------------------------------------------------------------
# Find and run Slurm's own commands.
#
# `radrm install-slurm-names` writes commands of radrm's that have Slurm's names, so each one that
# is found is looked into. Commands run without a shell, in the C locale, for a limited time, and a
# limited part of what they print is read.


OURS = "# written by radrm install-slurm-names"
"""The second line of a command of ours that has a name of Slurm's."""
_PLACES = ("/usr/local/bin", "/usr/bin", "/opt/slurm/bin")
"""Where Slurm lies that is not on the PATH."""
_MOST_READ = 8 << 20
_MOST_SAID = 2000
PACKAGES = "Debian: slurm-client; or run this on a node of the cluster"


class SlurmRefused(Refused):
    """A command of Slurm's has failed. The text is what it printed, word for word."""

    @property
    def lines(self) -> list[str]:
        return str(self).splitlines()


def program(name: str, path: str | None = None) -> str:
    """Return the path of a command of Slurm's. `path` has the folders to look in; None: PATH.

    Raises `Refused` if there is none.
    """
    folders = (os.environ.get("PATH", "") if path is None else path).split(os.pathsep)
    for folder in [*folders, *_PLACES]:
        found = os.path.join(folder, name)
        if folder and os.path.isfile(found) and os.access(found, os.X_OK) and not is_ours(found):
            return found
    raise Refused(f"{name} is not installed here, and Slurm is asked by it ({PACKAGES})")


def is_ours(path: str) -> bool:
    """Return whether a file is a command that `radrm install-slurm-names` has written."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return OURS.encode() in file.read(200)
    except OSError:
        return False


def run(
    name: str,
    *words: str,
    timeout_s: float = 10.0,
    input_text: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a command of Slurm's and return what it prints.

    `environment` None: that of this process. Raises `SlurmRefused` if it fails, and `Refused` if it
    is not installed or does not end in time.
    """
    import subprocess  # late: most steps ask Slurm nothing

    own = dict(os.environ if environment is None else environment)
    sent = None if input_text is None else input_text.encode("utf-8", "surrogateescape")
    try:
        done = subprocess.run(
            [program(name), *words],
            input=sent,
            stdin=subprocess.DEVNULL if sent is None else None,
            capture_output=True,
            env={**own, "LC_ALL": "C"},
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Refused(
            f"{name} has not answered for {timeout_s:g} s; see whether slurmctld runs: sinfo"
        ) from None
    except OSError as error:
        raise Refused(f"{name} cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        raise SlurmRefused(_said(name, done.stderr or done.stdout, done.returncode))
    return done.stdout[:_MOST_READ].decode("utf-8", "replace")


def is_up(timeout_s: float) -> bool:
    """Return whether a controller of Slurm's answers, the first one or a backup."""
    try:
        said = run("scontrol", "ping", timeout_s=timeout_s)
    except Refused:
        return False
    return any(line.rstrip().endswith(" is UP") for line in said.splitlines())


def one_line(error: RadrmError) -> str:
    """Return the text of an error; Slurm's may have several lines."""
    return "; ".join(str(error).splitlines())


def _said(name: str, output: bytes, code: int) -> str:
    """What a command that failed has printed, with all its lines."""
    lines = output[:_MOST_SAID].decode("utf-8", "replace").strip().splitlines()
    return "\n".join(plain(line) for line in lines) or f"{name} failed with exit code {code}"


def record(line: str) -> dict[str, str]:
    """Return the fields of one line of `scontrol -o show ...`: `KEY=VALUE KEY=VALUE`.

    A value may hold spaces: it ends before the next word that begins with `Name=`.
    """
    fields: dict[str, str] = {}
    last = ""
    for word in line.strip().split(" "):
        key, equals, value = word.partition("=")
        if equals and key and key[0].isupper() and key.replace(":", "").replace("/", "").isalnum():
            last, fields[key] = key, value
        elif last:
            fields[last] += f" {word}"
    return fields


# ------------------------------------------------------------------
# Whether a process is in a job of Slurm.
#
# Theory of operation. Where Slurm names control groups by its jobs, the kernel says it: only root
# makes groups at these places. Else (proctrack/linuxproc; groups named by SLUID, as from 26.05 on)
# Slurm's own command says it, which asks the slurmd of this node. Nothing that a process can write
# about itself (its environment, its name) counts.
#
# Source: cgroup.conf(5) and the plugins cgroup/v1 and cgroup/v2 of Slurm 22.05 to 26.05.


_V1 = re.compile(r"/slurm(?:_[^/]+)?/uid_\d+/job_(\d+)(?:/|$)")
_V2 = re.compile(r"/system\.slice/(?:[^/]+_)?slurmstepd\.scope/job_(\d+)(?:/|$)")
_ASK_S = 10.0
_LONGEST = 11
"""More digits than a pid has."""

Asked = Callable[..., str]


def _groups_of(pid: int) -> list[str]:
    """Return the paths of the control groups of a process."""
    return [path for _, _, path in groups_of_process(f"/proc/{pid}")]


def is_in_job(
    pid: int,
    job_id: str,
    groups_of: Callable[[int], Iterable[str]] = _groups_of,
    asked: Asked = run,
    node: str = "",
) -> bool:
    """Return whether a process is in this job of Slurm. Raises `RadrmError` if Slurm does not say.

    `groups_of` returns the control groups of a process, `asked` the output of a command of
    Slurm's. `node`: this node's name in Slurm, where it is not known by the server's name.
    """
    jobs = jobs_of(groups_of(pid))
    if jobs:
        return jobs == {job_id}
    words = ["scontrol", "listpids", job_id, *([node] if node else [])]
    return pid in pids_in(asked(*words, timeout_s=_ASK_S), job_id)


def jobs_of(groups: Iterable[str]) -> set[str]:
    """Return the jobs of Slurm to which these control groups belong."""
    found = (pattern.match(group) for group in groups for pattern in (_V1, _V2))
    return {match[1] for match in found if match is not None}


def pids_in(text: str, job_id: str) -> set[int]:
    """Return the processes of a job in the output of `scontrol listpids`."""
    rows = (line.split() for line in text.splitlines())
    found = (row[0] for row in rows if len(row) >= 2 and row[1] == job_id)
    return {int(pid) for pid in found if pid.isascii() and pid.isdigit() and len(pid) < _LONGEST}
