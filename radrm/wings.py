"""The wings: parts of radrm that the server never imports, and runs without.

A wing is a package below `radrm` (`lab`, `slurm`, `web`, ...). An entry point of the group
`radrm.wings` in radrm's own distribution names its `Wing`: tables of what it adds, by names and
places ("module:name"), so that reading them imports nothing of what they name. The server looks a
name up here when somebody asks for it: a command, a planner, a check of `doctor`, a place to submit
to, or who runs attempts that are not its own. A wing that was taken away adds nothing.

Third parties add rules otherwise: see `radrm.rules`.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module

from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

GROUP = "radrm.wings"


class Command:
    """A command of a wing.

    `group`: the title in `radrm help --all` under which it stands. `line`: its line of help.
    `module`: where its function is, which has its name, and its parameters (`NAME_PARAMETERS`).
    `commands`: it is a group of these commands, which are in that module.
    """

    def __init__(self, group: str, line: str, module: str, commands: tuple[str, ...] = ()) -> None:
        self.group, self.line, self.module = group, line, module
        self.commands = commands


class Wing:
    """What a wing adds, by name. A place is "module:name".

    `planners`: their places, as `planner = "NAME"` chooses them; they import `radrm.rules`, as a
    third party's do. `checks`: places of functions that return the checks of `radrm doctor
    --NAME`. `targets`: modules behind the options by which `submit`, `status`, `explain`, `logs`
    and `report` turn to another place than this server (`--cluster`, `--pilot`), or read other
    words (`--slurm`). `runners`: places of what runs attempts of this daemon inside another
    manager's jobs (`radrm.daemon.steps`). `programs`: folders of programs for the PATH of jobs that
    were submitted with such an option.
    """

    def __init__(
        self,
        commands: Mapping[str, Command] | None = None,
        planners: Mapping[str, str] | None = None,
        checks: Mapping[str, str] | None = None,
        targets: Mapping[str, str] | None = None,
        runners: Mapping[str, str] | None = None,
        programs: Mapping[str, str] | None = None,
    ) -> None:
        self.commands, self.planners = commands or {}, planners or {}
        self.checks, self.targets, self.runners = checks or {}, targets or {}, runners or {}
        self.programs = programs or {}


@cache
def wings() -> Mapping[str, Wing]:
    """Return what is installed, by name."""
    found = {}
    for name, place in sorted(_points().items()):
        module = place.partition(":")[0]
        try:
            found[name] = _at(place)
        except ModuleNotFoundError as error:
            if error.name not in (module.rpartition(".")[0], module):
                raise  # the wing is there, and broken
    return found


def _points() -> dict[str, str]:
    """Return the places of all wings, from the metadata of the first radrm on the path.

    `importlib.metadata` says the same, and takes longer to import than `radrm --help` takes.
    """
    for folder in sys.path:
        try:
            for name in os.listdir(folder or os.curdir):
                if name.startswith("radrm-") and name.endswith(".dist-info"):
                    return _of_group(os.path.join(folder, name, "entry_points.txt"))
        except OSError:
            continue
    return {}


def _of_group(file: str) -> dict[str, str]:
    found, inside = {}, False
    with open(file, encoding="utf-8") as lines:
        for line in map(str.strip, lines):
            if line.startswith("["):
                inside = line == f"[{GROUP}]"
            elif inside and "=" in line:
                name, _, place = line.partition("=")
                found[name.strip()] = place.strip()
    return found


def commands() -> dict[str, Command]:
    return {name: each for wing in wings().values() for name, each in wing.commands.items()}


def planners() -> dict[str, str]:
    return {name: place for wing in wings().values() for name, place in wing.planners.items()}


def check(name: str) -> Any:
    """Return the function behind `doctor --NAME`. Raises `UsageError` if no wing has it."""
    return _at(_one("checks", name))


def target(name: str) -> Any:
    """Return the module behind an option such as `--cluster`. Raises `UsageError` if no wing has
    it."""
    return import_module(_one("targets", name))


def runner(name: str) -> Any | None:
    """Return the class of what runs attempts elsewhere; None if no wing has it."""
    place = next((wing.runners[name] for wing in wings().values() if name in wing.runners), None)
    return None if place is None else _at(place)


def programs(name: str) -> str | None:
    """Return the folder of programs for jobs of this kind; None if no wing has one."""
    return next((wing.programs[name] for wing in wings().values() if name in wing.programs), None)


def _one(table: str, name: str) -> str:
    for wing in wings().values():
        places: Mapping[str, str] = getattr(wing, table)
        if name in places:
            return places[name]
    raise UsageError(f"--{name} needs a part of radrm that is not installed; install all of radrm")


def _at(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
