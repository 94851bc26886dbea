"""`radrm uninstall-service`: remove what `radrm install-service` has installed."""

from __future__ import annotations

from radrm.cli.service import (
    DryRun,
    Root,
    User,
    be_root,
    one_line,
    removal_lines,
    show,
    uninstall_own,
)
from radrm.errors import UsageError
from radrm.host.service.code import script
from radrm.host.service.files import UNIT_PATH, State, files_of
from radrm.host.service.steps import (
    remove,
    remove_socket,
    run_all,
    site,
    states_of,
    uninstall_commands,
)

_KEPT = (
    "Running jobs go on. Kept are /var/lib/radrm (the queue, checkpoints), /etc/radrm, and what",
    "was set with systemctl edit.",
    "To remove them, once no job runs: sudo rm -r /var/lib/radrm /run/radrm /etc/radrm",
)


def uninstall_service(dry_run: DryRun = False, root: Root = None, user: User = False) -> None:
    """Stop the service and remove its files; jobs stay.

    The command shows its steps, then takes them. The jobs' data and the configuration stay, and
    so does a file that was changed by hand.

    \b
    Examples:
      sudo radrm uninstall-service
      radrm uninstall-service --user
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
