"""What the commands of `radrm service` share: options, the lines of steps."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from radrm.cli.show.question import on_terminal
from radrm.errors import Refused, StoreError, plain
from radrm.host.service.code import script
from radrm.host.service.files import File, State, difference, own_unit, under
from radrm.host.service.steps import (
    Site,
    command_text,
    install_commands,
    is_ours,
    own_site,
    remove,
    run_all,
    states_of,
    uninstall_commands,
    write,
)
from radrm.host.storage.files import write_durably
from radrm.host.storage.paths import refuse_second

Root = Annotated[
    str | None,
    typer.Option(
        "--root", metavar="DIR", help="Change the system whose files are in DIR: an image."
    ),
]
User = Annotated[
    bool, typer.Option("--user", help="A service of your own, without root: systemctl --user.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the steps, and change nothing.")]

_WORDS = {State.NEW: "write", State.SAME: "same", State.OLDER: "update", State.EDITED: "changed"}


def be_root(dry_run: bool) -> None:
    """Raise `Refused` for a user who is not root, unless nothing is to be changed."""
    if os.geteuid() == 0 or dry_run:
        return
    words = [os.path.abspath(sys.argv[0]), *sys.argv[1:]]
    raise Refused(f"only root can do this; run: sudo {command_text(words)}")


def install_lines(
    states: Iterable[tuple[File, State]], commands: Iterable[Sequence[str]], where: Site
) -> list[str]:
    """`write`: new; `same`: nothing to do; `update`: ours; `changed`: by hand."""
    files = [_line(_WORDS[state], f"{_place(file, where)}{_leads(file)}") for file, state in states]
    return files + _commands(commands)


def removal_lines(
    states: Iterable[tuple[File, State]],
    before: Iterable[Sequence[str]],
    after: Iterable[Sequence[str]],
    where: Site,
) -> list[str]:
    """`remove`: ours; `keep`: changed by hand, or another radrm's; `none`: not there."""
    lines = _commands(before)
    for file, state in states:
        word = "remove" if is_ours(state) else "none" if state is State.NEW else "keep"
        lines.append(_line(word, _place(file, where)))
    return lines + _commands(after)


@contextlib.contextmanager
def one_line(what: str) -> Iterator[None]:
    """Turn an OSError into one line: `what` failed, at which path, and why."""
    try:
        yield
    except OSError as error:
        where = "" if error.filename is None else f" {os.fsdecode(error.filename)}"
        raise StoreError(
            f"{what}{where}: {error.strerror}; correct it and run this again"
        ) from None


# ------------------------------------------------------------------ the question

_CONTROL = "nvidia-cuda-mps-control"
_ABOUT_MPS = (
    "With CUDA MPS, jobs of one user share a GPU with less loss than time-sliced. A job that",
    "faults ends its user's other jobs on that GPU. radrm's acceptance run of MPS has not",
    "passed on hardware yet. More: docs/administrators.md, When to switch it on",
)


def ask_for_mps(path: Path) -> None:
    """Ask whether to switch MPS on, and write the answer into the new configuration file `path`.

    Only where somebody can answer, the server has MPS, and there is no such file: so it asks once.
    """
    if os.path.lexists(path) or not on_terminal() or not shutil.which(_CONTROL):
        return
    show(_ABOUT_MPS)
    enabled = typer.confirm("Switch MPS on?", default=False)
    text = (
        "# Written by radrm service install; all settings: radrm config show\n"
        f"[mps]\nenabled = {'true' if enabled else 'false'}\n"
    )
    show([_line("write", str(path))])
    with one_line("cannot write the configuration: at"):
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        write_durably(str(path), text.encode(), 0o644)


def show(lines: Iterable[str]) -> None:
    print("\n".join(map(plain, lines)), flush=True)


def shown_source(package: str) -> str:
    """What pip can install: the checkout that holds the folder `package`, else the folder of the
    caller."""
    above = os.path.dirname(os.path.abspath(package))
    return above if os.path.isfile(f"{above}/pyproject.toml") else "."


# ------------------------------------------------------------------ one user's own service


def install_own(
    gpus: str | None = None,
    dry_run: bool = False,
    start: bool = True,
    replace: bool = False,
    private: bool = False,
) -> None:
    """Make the daemon a service of this user alone. `gpus`: simulated ones.

    Raises `Refused` for root, without a systemd of the user, and for a unit that was changed;
    `UsageError` on a server that has a radrm for all, unless `private`.
    """
    where, files = own_files(gpus)
    way = [
        "radrm",
        "service",
        "install",
        "--user",
        "--private",
        *(["--gpus", gpus] if gpus else []),
    ]
    # Without the variables of this shell: the unit's daemon does not have them.
    refuse_second({}, os.geteuid(), private, command_text(way))
    with one_line("cannot look at"):
        ((file, state),) = states = states_of(files, where)
        commands = install_commands(where, start)
        show(install_lines(states, commands, where))
        if state is State.EDITED:
            show(difference(file, where.root))
            if not replace:
                raise Refused(
                    f"{file.path} is not as radrm writes it (see above), and nothing is done; put "
                    "your changes into: systemctl --user edit radrmd; then overwrite it: --replace"
                )
    if dry_run:
        return
    if state is not State.SAME:
        with one_line(f"cannot write {file.path}: at"):
            write(file, where)
    run_all(commands, journal=where.journal)
    if not _lingers():
        show(["To keep it and its jobs running when you log out: loginctl enable-linger"])


def uninstall_own(dry_run: bool = False) -> None:
    """Stop this user's own service and remove its unit. Jobs and the configuration stay."""
    where, files = own_files(None)
    with one_line("cannot look at"):
        ((file, state),) = states = states_of(files, where)
    before, after = uninstall_commands(states, where)
    show(removal_lines(states, before, after, where))
    if dry_run:
        return
    run_all(before, journal=where.journal)
    with one_line(f"cannot remove {file.path}: at"):
        remove(file, where)
    run_all(after, journal=where.journal)
    if state is State.EDITED:
        by_hand = f"systemctl --user disable --now radrmd && rm {shlex.quote(file.path)}"
        show([f"{file.path} is not as radrm writes it, and stays. To remove it: {by_hand}"])
    show(["Running jobs go on. Kept are the queue (~/.local/state/radrm) and the configuration."])


def own_files(gpus: str | None) -> tuple[Site, list[File]]:
    """The site and the files of this user's service."""
    if os.geteuid() == 0:
        raise Refused("root's daemon serves the whole server; leave out --user")
    home = os.path.expanduser("~")
    runtime = os.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}")
    config = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return own_site(runtime), [own_unit(script(), config, gpus)]


def _lingers() -> bool:
    return os.path.exists(f"/var/lib/systemd/linger/{pwd.getpwuid(os.geteuid()).pw_name}")


def _commands(commands: Iterable[Sequence[str]]) -> list[str]:
    return [_line("run", command_text(command)) for command in commands]


def _place(file: File, where: Site) -> str:
    return under(where.root, file.path)


def _leads(file: File) -> str:
    return "" if file.leads_to is None else f" -> {shlex.quote(file.leads_to)}"


def _line(word: str, text: str) -> str:
    return f"{word:8}{text}"
