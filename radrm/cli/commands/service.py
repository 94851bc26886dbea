"""`radrm service`: make the daemon a service of systemd, show that service, and remove it."""

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
    own_files,
    removal_lines,
    show,
    shown_source,
    uninstall_own,
)
from radrm.config import config_path
from radrm.errors import Refused, UsageError
from radrm.host.service.code import code_of, fault_of, script
from radrm.host.service.files import UNIT, UNIT_PATH, State, difference, files_of
from radrm.host.service.ownership import Ownership
from radrm.host.service.steps import (
    check_folder,
    code_refusal,
    install_commands,
    refuse_packaged,
    remove,
    remove_socket,
    run,
    run_all,
    site,
    states_of,
    uninstall_commands,
    write,
)

service = typer.Typer(
    name="service",
    help="Make the daemon a service of systemd, show it, remove it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_KEPT = (
    "Running jobs go on. Kept are /var/lib/radrm (the queue, checkpoints), /etc/radrm, and what",
    "was set with systemctl edit.",
    "To remove them, once no job runs: sudo rm -r /var/lib/radrm /run/radrm /etc/radrm",
)


@service.command()
def install(
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
      sudo "$(command -v radrm)" service install
      radrm service install --dry-run
      radrm service install --user
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


@service.command("remove")
def take_away(dry_run: DryRun = False, root: Root = None, user: User = False) -> None:
    """Stop the service and remove its files; jobs stay.

    The command shows its steps, then takes them. The jobs' data and the configuration stay, and
    so does a file that was changed by hand.

    \b
    Examples:
      sudo radrm service remove
      radrm service remove --user
    """
    if user:
        if root is not None:
            raise UsageError("--user and --root exclude each other; use one of them")
        uninstall_own(dry_run)
        return
    where = site(root)
    be_root(dry_run)
    with one_line("cannot look at"):
        states = states_of(files_of(script()), where)
    before, after = uninstall_commands(states, where)
    show(removal_lines(states, before, after, where))
    if dry_run:
        return
    run_all(before)
    for file, _ in states:
        with one_line(f"cannot remove {file.path}: at"):
            remove(file, where)
    run_all(after)
    with one_line("cannot remove the socket: at"):
        remove_socket(where)
    if states[0][1] is State.EDITED:
        by_hand = f"sudo systemctl disable --now radrmd && sudo rm {UNIT_PATH}"
        show([f"{UNIT_PATH} is not as radrm writes it, and stays. To remove it: {by_hand}"])
    show(_KEPT)


@service.command()
def status(user: User = False) -> None:
    """Show the service: its files, then what systemd says of it.

    `same`: as this radrm writes it; `update`: of another release; `changed`: by hand; `write`: not
    there. The exit code is 1 if the service does not run.

    \b
    Examples:
      radrm service status
      radrm service status --user
    """
    where, files = own_files(None) if user else (site(None), files_of(script()))
    with one_line("cannot look at"):
        show(install_lines(states_of(files, where), (), where))
    if run(where.systemctl("--no-pager", "--lines=0", "status", UNIT)):
        raise typer.Exit(1)
