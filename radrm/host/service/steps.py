"""Install and uninstall the service: which files are written or removed, which commands run.

Each step can be repeated, and a second run completes one that was cut off.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from radrm.errors import Refused, Unreachable
from radrm.host.service.choices import spool_command
from radrm.host.service.files import PAGE_UNIT, TMPFILES_PATH, UNIT, File, State, state_of, under
from radrm.host.service.ownership import Fault, Ownership
from radrm.host.sockets import connect
from radrm.host.storage.files import fsync_folder, write_durably
from radrm.host.storage.paths import SYSTEM_UNITS, paths_for

BOOTED = "/run/systemd/system"
"""This folder is there if systemd is process 1."""
_LIMIT_S = 900.0
"""Real seconds for one command: a start re-adopts running jobs before it is ready."""

Command = list[str]
Run = Callable[[Sequence[str]], int]


class Site(Struct, frozen=True):
    """The system whose files are below `root`. If `offline`, it does not run now. `own`: the
    services of one user."""

    root: str = "/"
    offline: bool = False
    own: bool = False

    def systemctl(self, *words: str) -> Command:
        where = [f"--root={self.root}"] if self.offline else ["--user"] if self.own else []
        return ["systemctl", *where, *words]

    @property
    def journal(self) -> str:
        """The command that shows what the service says."""
        return f"journalctl {'--user ' if self.own else ''}-u {UNIT} -n 50"


def site(root: str | None, booted: str = BOOTED) -> Site:
    """The site that a command line names. Raises `Refused` without systemd, or for no folder."""
    if root is None:
        if not os.path.isdir(booted):
            raise Refused(
                f"this machine does not run systemd ({booted} does not exist); let its service "
                "manager start: radrm daemon; or write the files of an image: --root DIR"
            )
        return Site()
    if not os.path.isdir(root):
        raise Refused(f"--root={root} is not a folder; give the top folder of a system's files")
    return Site(os.path.realpath(root), offline=True)


def own_site(runtime: str) -> Site:
    """The services of the user whose runtime folder this is. Raises `Refused` without a systemd
    of that user."""
    if not os.path.exists(f"{runtime}/systemd/private"):
        raise Refused(
            f"no systemd runs for you ({runtime}/systemd/private does not exist); start the daemon "
            "yourself: nohup radrm daemon > ~/radrmd.log 2>&1 &"
        )
    return Site(own=True)


def states_of(files: Iterable[File], where: Site) -> list[tuple[File, State]]:
    """The files, and what is there now. Raises OSError."""
    return [(file, state_of(file, where.root)) for file in files]


def command_text(command: Sequence[str]) -> str:
    return " ".join(map(shlex.quote, command))


# ------------------------------------------------------------------ install


def code_refusal(fault: Fault, source: str) -> Refused:
    """Why a service of this code would give root's rights away. `source`: what pip can install."""
    if fault.mode_only:
        step = f"sudo chmod go-w {shlex.quote(fault.path)}"
    else:
        step = (
            "install radrm as root: sudo python3 -I -m venv /opt/radrm && "
            f"sudo /opt/radrm/bin/pip install {shlex.quote(source)} && "
            "sudo /opt/radrm/bin/radrm service install"
        )
    return Refused(f"{fault}, and the service would run its code as root; {step}")


def refuse_packaged(where: Site) -> None:
    """Raise `Refused` where a package of the system has brought the unit: two would differ."""
    path = packaged_unit(where)
    if path is not None:
        raise Refused(
            f"{path} is there already, from a package of the system; start that one: sudo "
            f"systemctl enable --now {UNIT}; or set it up: radrm service install --help"
        )


def packaged_unit(where: Site) -> str | None:
    """The unit that a package of the system has brought; None without one."""
    paths = (under(where.root, place) for place in SYSTEM_UNITS[1:])
    return next(filter(os.path.lexists, paths), None)


def install_commands(
    where: Site,
    start: bool,
    users: str | None = None,
    page: bool = False,
    folders: bool = True,
) -> list[Command]:
    """What runs after the files are written. `users`: who may submit from now on; `page`: the
    service of the page, too. `folders`: they are to be made."""
    now = ["--now"] if start else []
    if where.offline:
        return [where.systemctl("enable", UNIT)]
    return [
        *([["systemd-tmpfiles", "--create", TMPFILES_PATH]] if folders and not where.own else []),
        *([] if users is None else [spool_command(users)]),
        where.systemctl("daemon-reload"),
        where.systemctl("enable", *now, UNIT),
        *([where.systemctl("enable", *now, PAGE_UNIT)] if page else []),
    ]


def check_folder(file: File, where: Site, ownership: Ownership) -> None:
    """Raise `Refused` if the folder of a file leads out of the root, or if others can change it.

    They may change that of a link (Debian's /usr/local/bin belongs to its group `staff`): the
    service does not run what it leads to. Raises OSError.
    """
    folder = os.path.dirname(under(where.root, file.path))
    fault = ownership.way(folder) if file.text is not None else None
    if fault is not None:
        raise Refused(f"{folder} is not written to: {fault}; correct its owner and mode")
    if os.path.commonpath([os.path.realpath(folder), where.root]) != where.root:
        raise Refused(f"{folder} leads out of {where.root}, so nothing is written there")


def write(file: File, where: Site) -> None:
    """Write one file or link over what is there. Raises OSError."""
    path = under(where.root, file.path)
    folder = os.path.dirname(path)
    os.makedirs(folder, 0o755, exist_ok=True)
    if file.text is not None:
        write_durably(path, file.text.encode(), 0o644)
    elif file.leads_to is not None:
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(file.leads_to, path)
        fsync_folder(folder)


# ------------------------------------------------------------------ uninstall


def uninstall_commands(
    states: Iterable[tuple[File, State]], where: Site
) -> tuple[list[Command], list[Command]]:
    """What runs before the files are removed, and after. Nothing if there is no unit of ours."""
    ours = [os.path.basename(file.path) for file, state in states if is_ours(state)]
    units = [unit for unit in (PAGE_UNIT, UNIT) if unit in ours]
    now = [] if where.offline else ["--now"]
    before = [where.systemctl("disable", *now, unit) for unit in units]
    return before, [where.systemctl("daemon-reload")] if before and not where.offline else []


def is_ours(state: State) -> bool:
    """True for a file that may be removed."""
    return state in (State.SAME, State.OLDER)


def remove(file: File, where: Site) -> None:
    """Remove one file, unless it has been edited meanwhile. Raises OSError."""
    if is_ours(state_of(file, where.root)):
        path = under(where.root, file.path)
        os.unlink(path)
        fsync_folder(os.path.dirname(path))


def remove_socket(where: Site) -> None:
    """Remove the socket of the server's daemon, if none listens: it tells users that the server has
    a radrm. Raises OSError."""
    path = paths_for({}, 0).socket
    if where.offline or not os.path.exists(path):
        return
    try:
        connect(path, 1.0).close()
    except Unreachable:
        os.unlink(path)


# ------------------------------------------------------------------ commands


def run(command: Sequence[str]) -> int:
    """Run a command, which prints for itself, and return its exit code. Raises `Refused` if it is
    not there or does not end."""
    program = shutil.which(command[0])
    if program is None:
        raise Refused(f"{command[0]} is not on PATH; run it yourself: {command_text(command)}")
    try:
        done = subprocess.run(
            [program, *command[1:]], stdin=subprocess.DEVNULL, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        late = f"{command_text(command)} did not end within {_LIMIT_S:.0f} s"
        raise Refused(f"{late}; see why: journalctl -u {UNIT} -n 50") from None
    return done.returncode


def run_all(
    commands: Iterable[Sequence[str]], run: Run = run, *, journal: str = Site().journal
) -> None:
    """Run commands in their order. Raises `Refused` for the first that fails; `journal` tells
    why."""
    for command in commands:
        code = run(command)
        if code != 0:
            raise Refused(
                f"{command_text(command)} failed with exit code {code}; see why: {journal}; "
                "then run this command again"
            )
