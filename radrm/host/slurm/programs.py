"""Find and run Slurm's own commands.

`radrm install-slurm-names` writes commands of radrm's that have Slurm's names, so each one that is
found is looked into. Commands run without a shell, in the C locale, for a limited time, and a
limited part of what they print is read.
"""

from __future__ import annotations

import os
import subprocess

from radrm.errors import Refused, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

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
