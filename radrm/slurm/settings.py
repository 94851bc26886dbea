"""Which configuration holds for commands of a cluster, and where the daemon of a node is."""

from __future__ import annotations

import os
from collections.abc import Mapping

from radrm.config import Config, SlurmConfig, load_config
from radrm.host.storage.paths import Paths, client_paths, servers_own

MARGIN_MIB = 2048
"""What the policies keep free beside a job's need (`margin_mib`), at least. Beside a declared need
without a limit it is `DECLARED_MARGIN` of that, if that is more."""
_SITE = "/etc/radrm/radrm.toml"


def cluster_config(environ: Mapping[str, str]) -> Config:
    """Return the configuration of `RADRM_CONFIG`, else of the site, else of the user.

    Raises `BadConfig`.
    """
    site = not environ.get("RADRM_CONFIG") and os.path.exists(_SITE)
    return load_config(environ, system=site)


def daemon_paths(config: SlurmConfig, environ: Mapping[str, str], uid: int) -> tuple[Paths, ...]:
    """Return where the daemon of this node may be: where the configuration says; else that of the
    server, also while it is down; else the user's."""
    if config.home:
        home = config.home.replace("%n", environ.get("SLURMD_NODENAME", ""))
        return client_paths({**environ, "RADRM_HOME": home}, uid)
    # A job's environment is that of its submission: RADRM_HOME may name another daemon.
    server = servers_own()
    return client_paths(environ, uid) if server is None else (server,)
