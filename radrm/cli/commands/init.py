"""`radrm init`: set radrm up on one's own machine, by four questions at most."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from radrm.cli.commands.completion import SHELLS
from radrm.cli.service import DryRun, install_own, one_line, show
from radrm.cli.show.question import on_terminal
from radrm.client.connection import Client
from radrm.config import GOALS, ReadingsConfig, config_path
from radrm.errors import BadConfig, DeviceError, RadrmError, Refused, UsageError, plain
from radrm.host.gpus.readings import open_gpus
from radrm.host.service.steps import own_site
from radrm.host.storage.files import write_durably
from radrm.host.storage.paths import system_mode
from radrm.simulated.spec import parse

_SIMULATED = "sim:2xA100-40GB"
_GOALS = {
    "sharing": "small jobs end early, large ones wait little",
    "throughput": "all jobs end early",
    "turnaround": "the mean job ends early",
    "published": "the best setting of the RAD-RM paper",
    "exclusive": "one job per GPU, in the order of submission",
}
_COMPLETION = "radrm completion"
_LARGEST_FILE = 1 << 22


@dataclass(frozen=True, slots=True)
class Writing:
    """A text for a new file, or for the end of one (`adds`)."""

    path: str
    text: str
    adds: bool = False


def init(
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Take the default answers, and do not ask.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Set radrm up on your own machine: four questions at most.

    It shows each file before it writes it, and never changes a configuration that exists.

    \b
    Examples:
      radrm init
      radrm init --yes
    """
    if not yes and not on_terminal():
        raise UsageError("there is no terminal to ask at; take the defaults: radrm init --yes")
    ask = _Asking(yes)
    gpus = _gpus(ask)
    files = [*_configuration(ask)]
    service = not _is_served() and _may_serve() and ask.whether("Run the daemon as a service?")
    files += _completion(ask)
    for each in files:
        show(
            [
                f"{'add to' if each.adds else 'write':8}{each.path}",
                *(f"        {line}" for line in each.text.splitlines()[:12]),
            ]
        )
        if not dry_run:
            with one_line(f"cannot write {each.path}: at"):
                _write(each)
    if service:
        install_own(gpus, dry_run)
    show(_next(gpus, service or _is_served()))


class _Asking:
    """Asks the user; `silent`: takes each default and shows it."""

    def __init__(self, silent: bool) -> None:
        self.silent = silent

    def word(self, question: str, default: str, choices: Sequence[str] = ()) -> str:
        """One word; of `choices`, if there are any."""
        if self.silent:
            show([f"{question}: {default}"])
            return default
        while True:
            found = str(typer.prompt(question, default=default)).strip()
            if not choices or found in choices:
                return found
            show([f"{found[:40]!r} is none of {', '.join(choices)}"])

    def whether(self, question: str) -> bool:
        if self.silent:
            show([f"{question} yes"])
            return True
        return typer.confirm(question, default=True)


# ------------------------------------------------------------------ the questions


def _gpus(ask: _Asking) -> str | None:
    """Simulated GPUs to serve; None for those of this machine."""
    try:
        found = open_gpus(ReadingsConfig()).devices()
    except DeviceError as error:
        show([f"No GPU can be read here: {plain(str(error))}"])
        found = ()
    if found:
        show(["GPUs of this machine:", *(f"  {d.index}  {plain(d.name)}" for d in found)])
        if ask.whether("Serve all of them? (no: simulated ones, to try radrm)"):
            return None
    while True:
        spec = ask.word("Simulated GPUs to try radrm with", _SIMULATED)
        try:
            parse(spec)
            return spec
        except RadrmError as error:
            show([plain(str(error))])


def _configuration(ask: _Asking) -> list[Writing]:
    path = config_path(os.environ, system_mode(os.environ, os.getuid()))
    if path is None:
        raise BadConfig("you have no home folder to keep a configuration in; set HOME")
    if os.path.lexists(path):
        show([f"{path} exists, and stays as it is; see: radrm config show"])
        return []
    show(["What should the policy aim at?", *(f"  {n:12}{about}" for n, about in _GOALS.items())])
    goal = ask.word("Goal", "sharing", tuple(_GOALS))
    key = "goal" if goal in GOALS else "policy"
    text = f'# Written by radrm init; all settings: radrm config show\n{key} = "{goal}"\n'
    return [Writing(str(path), text)]


def _completion(ask: _Asking) -> list[Writing]:
    shell = os.path.basename(os.environ.get("SHELL", ""))
    home = os.path.expanduser("~")
    if shell not in SHELLS:
        return []
    radrm = _radrm()
    if shell == "fish":
        config = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
        path = f"{config}/fish/completions/radrm.fish"
        line, adds = f"{radrm} completion fish | source\n", False
        there = os.path.lexists(path)
    else:
        path = (
            f"{os.environ.get('ZDOTDIR') or home}/.zshrc" if shell == "zsh" else f"{home}/.bashrc"
        )
        script = f"source <({radrm} completion {shell})"
        line = f"if command -v {radrm} >/dev/null; then {script}; fi\n"
        adds, there = True, _has_completion(path)
    if there or not ask.whether(f"Complete command lines in {shell}?"):
        return []
    return [Writing(path, line, adds)]


def _has_completion(path: str) -> bool:
    try:
        with open(path, errors="replace") as file:
            return _COMPLETION in file.read(_LARGEST_FILE)
    except OSError:
        return False


# ------------------------------------------------------------------ the doing


def _write(each: Writing) -> None:
    os.makedirs(os.path.dirname(each.path), 0o755, exist_ok=True)
    if not each.adds:
        write_durably(each.path, each.text.encode(), 0o644)
        return
    with open(each.path, "a+b") as file:
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            ends = file.read(1) == b"\n"
            file.write(b"" if ends else b"\n")
        file.write(each.text.encode())


def _may_serve() -> bool:
    """True for a user whose systemd runs, and whose daemon has the usual places: a service has no
    variables of a shell."""
    if os.geteuid() == 0 or os.environ.get("RADRM_HOME") or os.environ.get("RADRM_CONFIG"):
        return False
    try:
        own_site(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}")
    except Refused:
        return False
    return True


def _is_served() -> bool:
    """True if a daemon answers that this user's commands find."""
    with Client() as client:
        return client.is_up()


def _radrm() -> str:
    """How this user's shells find radrm: by its name, else by its path."""
    return "radrm" if shutil.which("radrm") else shlex.quote(os.path.abspath(sys.argv[0]))


def _next(gpus: str | None, started: bool) -> list[str]:
    """The lines at the end: what to type now."""
    radrm, lines = _radrm(), []
    if not started:
        command = f"{radrm} daemon" + ("" if gpus is None else f" --gpus {shlex.quote(gpus)}")
        if system_mode(os.environ, os.getuid()):
            lines.append(f"For all users, from each boot on: {radrm} install-service")
        lines.append(f"Next, start the daemon: {command} &")
    lines.append(f"{'Next' if started else 'Then'}: {radrm} submit --wait -- echo hello")
    return lines
