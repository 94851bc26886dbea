"""`radrm install-service`: make the daemon a service of systemd."""

from __future__ import annotations

import os
from typing import Annotated

import typer

import radrm
from radrm.cli.service import (
    DryRun,
    Root,
    User,
    ask_for_mps,
    be_root,
    install_lines,
    install_own,
    one_line,
    show,
    shown_source,
)
from radrm.config import config_path
from radrm.errors import Refused, UsageError
from radrm.host.service.code import code_of, fault_of, script
from radrm.host.service.files import State, difference, files_of
from radrm.host.service.ownership import Ownership
from radrm.host.service.steps import (
    check_folder,
    code_refusal,
    install_commands,
    refuse_packaged,
    run_all,
    site,
    states_of,
    write,
)


def install_service(
    dry_run: DryRun = False,
    no_start: Annotated[
        bool, typer.Option("--no-start", help="Start the daemon at the next boot, not now.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite files that were changed by hand.")
    ] = False,
    root: Root = None,
    user: User = False,
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", metavar="sim:SPEC", help="With --user: simulated GPUs."),
    ] = None,
    private: Annotated[
        bool,
        typer.Option(
            "--private", help="With --user: also on a server that has a radrm for all users."
        ),
    ] = False,
) -> None:
    """Make the daemon a service of systemd.

    The service is for all users of this server. The command shows its steps, then takes them:
    a unit, radrm's folders, and a link to radrm in /usr/local/bin. A second run changes nothing.
    It refuses code that others than root can change, because the service runs it as root.
    On a terminal, without a configuration file, it asks whether to switch CUDA MPS on.

    \b
    Examples:
      sudo "$(command -v radrm)" install-service
      radrm install-service --dry-run
      radrm install-service --user
    """
    if user:
        if root is not None:
            raise UsageError("--user and --root exclude each other; use one of them")
        install_own(gpus, dry_run, not no_start, replace, private)
        return
    if private:
        raise UsageError("--private goes with --user: a server's daemon serves all users")
    if gpus is not None:
        raise UsageError("--gpus goes with --user: a server's daemon serves its real GPUs")
    where = site(root)
    refuse_packaged(where)
    be_root(dry_run)
    radrmd = script()
    with one_line("cannot look at"):
        states = states_of(files_of(radrmd), where)
        commands = install_commands(where, not no_start)
        show(install_lines(states, commands, where))
        edited = [file for file, state in states if state is State.EDITED]
        for file in edited:
            show(difference(file, where.root))
        fault = fault_of(code_of(radrmd), Ownership(lasting=True))
        ownership = Ownership()
        for file, _ in states:
            check_folder(file, where, ownership)
    if fault is not None:
        raise code_refusal(fault, shown_source(os.path.dirname(radrm.__file__)))
    if edited and not replace:
        raise Refused(
            f"{edited[0].path} is not as radrm writes it (see above), and nothing is done; put "
            "your changes into: sudo systemctl edit radrmd; then overwrite it: --replace"
        )
    if dry_run:
        return
    config = config_path({}, True)  # the service's, without the variables of this shell
    if config is not None and not where.offline:
        ask_for_mps(config)
    for file, state in states:
        if state is not State.SAME:
            with one_line(f"cannot write {file.path}: at"):
                write(file, where)
    run_all(commands)
    if where.offline or no_start:
        return
    show(["radrm serves this machine and starts at boot; check it: radrm doctor"])
    if states[0][1] not in (State.NEW, State.SAME):
        show(["To use the new unit: sudo systemctl restart radrmd; running jobs go on"])
