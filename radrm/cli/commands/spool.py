"""`radrm spool`: print the folder whose `.rad` files become the caller's jobs."""

from __future__ import annotations

import os

from radrm.client.connection import Client, find_spool
from radrm.client.text import say
from radrm.errors import Unreachable
from radrm.host.storage.paths import Paths, paths_for
from radrm.host.watched.folders import UserFolders

SPOOL_PARAMETERS = ()


def spool() -> None:
    """Print your spool folder, whose .rad files become jobs.

    The command makes the folder if it is missing. A job runs in your home folder, with the
    environment of your login. Its file is moved to the folder done, with the job's ticket in
    its name, or to the folder refused, with the reason beside it.

    \b
    Example:
      cp train.rad "$(radrm spool)"
    """
    with Client() as client:
        paths, up = find_spool(client)
        say(_folder(client, paths, up))


def _folder(client: Client, paths: Paths, up: bool) -> str:
    if paths != paths_for({}, 0):
        return paths.spool
    users = UserFolders(paths.users)
    me = os.getuid()
    if up:
        client.ask("spool")
    elif me == 0:
        users.make(0, 0)
    elif not os.path.lexists(f"{paths.users}/{me}"):
        raise Unreachable(
            f"the system's daemon makes your folder in {paths.users}, and it does not run; ask "
            "the administrator to start it, or use radrm submit"
        )
    return users.path_of(me)
