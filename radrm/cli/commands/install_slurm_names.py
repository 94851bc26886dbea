"""`radrm install-slurm-names`: commands named `sbatch`, `squeue`, `scancel`, `sinfo`, `srun`."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from radrm.cli.slurm.names import NAMES
from radrm.errors import Refused
from radrm.host.slurm import OURS, is_ours


def install_slurm_names(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the commands go.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also where a Slurm is installed.")
    ] = False,
) -> None:
    """Write commands named sbatch, squeue, scancel, sinfo and srun that speak to radrm.

    They are for a server without Slurm, whose users and scripts know these names. Their options
    are in docs/others.md. Nothing that radrm did not write is overwritten.

    \b
    Examples:
      radrm install-slurm-names ~/bin
      sudo "$(command -v radrm)" install-slurm-names /usr/local/bin
    """
    texts = {name: _text(name) for name in NAMES}
    if not force:
        for name in NAMES:
            found = shutil.which(name)
            if found is not None and not is_ours(found):
                raise Refused(
                    f"this server has a Slurm: {found}; to write the commands nevertheless: --force"
                )
    for name in NAMES:
        path = folder / name
        if os.path.lexists(path) and not is_ours(str(path)):
            raise Refused(f"{path} is not radrm's, and nothing is done; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            _write(folder / name, text)
    except OSError as error:
        raise Refused(f"cannot write {error.filename}: {error.strerror}") from None
    print(f"Wrote {', '.join(NAMES)} to {folder}")
    folders = os.environ.get("PATH", "").split(os.pathsep)
    if str(folder.resolve()) not in [os.path.realpath(each) for each in folders if each]:
        print(f"To find them, put it into PATH: export PATH={shlex.quote(str(folder))}:$PATH")


def _text(name: str) -> str:
    python = shlex.quote(sys.executable)
    return f'#!/bin/sh\n{OURS}\nexec {python} -m radrm.cli.slurm_commands {name} "$@"\n'


def _write(path: Path, text: str) -> None:
    """Write a command, or replace an earlier one, at once."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755)
    with open(handle, "w") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o755)
    os.replace(draft, path)
