"""The cluster with a real slurmdbd, over a MariaDB of its own: both listen on loopback only."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.ports import free_ports
from tests.slurm.cluster import SYSTEM_PATH, Cluster, program
from tests.waiting import PATIENCE_S, wait_until

MISSING = "slurmdbd or MariaDB is not installed (Debian: slurmdbd mariadb-server)"
_PROGRAMS = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb", "mariadb-install-db")
_SLURM_CONF = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge/socket
AccountingStoreFlags=job_comment
AccountingStorageTRES=gres/gpumem
PriorityType=priority/multifactor
"""
_SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=test
StorageLoc=slurm_acct
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""
_USER = "CREATE USER slurm@'%' IDENTIFIED BY 'test'; GRANT ALL ON slurm_acct.* TO slurm@'%'"


def installed() -> bool:
    return all(shutil.which(name, path=SYSTEM_PATH) for name in _PROGRAMS)


class RecordingCluster(Cluster):
    """A cluster whose ended jobs sacct knows. The database lies in its folder."""

    def __init__(self) -> None:
        super().__init__()
        self._port, self._database = free_ports(2)
        self.more = _SLURM_CONF.format(folder=self.folder, port=self._port)

    def _start_munged(self) -> None:
        super()._start_munged()
        self._start_database()
        conf = self.folder / "slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text(
            _SLURMDBD_CONF.format(folder=self.folder, port=self._port, database=self._database)
        )
        self._start("slurmdbd", "-D")
        add = "-i", "add", "cluster", "radrm-test"
        wait_until(lambda: self.run("sacctmgr", *add).returncode == 0, "slurmdbd")

    def _start_database(self) -> None:
        folder = self.folder / "database"
        own = "--no-defaults", f"--datadir={folder}", "--user=root"
        subprocess.run(
            [program("mariadb-install-db"), *own, "--skip-test-db"],
            env={**os.environ, "PATH": SYSTEM_PATH},
            capture_output=True,
            timeout=PATIENCE_S,
            check=True,
        )
        socket = f"--socket={folder}/socket"
        here = "--bind-address=127.0.0.1", f"--port={self._database}", f"--pid-file={folder}/pid"
        self._start("mariadbd", *own, socket, *here)
        ask = "--no-defaults", socket, "-e"
        wait_until(lambda: self.run("mariadb", *ask, _USER).returncode == 0, "MariaDB")
