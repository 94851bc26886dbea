"""Where the soak happens: private folders, users, control groups.

Theory of operation. As root, the daemon is a real system daemon: it keeps its state in
`/var/lib/radrm`. The soak has a mount namespace of its own, in which `/var/lib` and `/run` are
empty file systems in memory, so the machine's own radrm is neither seen nor touched. The disk of
the state is small, so that it can be filled. The interpreter may lie in a folder that is closed
to the three users (`/root`): in the namespace, that folder is replaced by an open one that holds
only what the jobs need. An ordinary user has one daemon and one user: himself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from radrm.host.processes import cgroups
from radrm.host.storage.paths import Paths, paths_for
from tests.paths import REPOSITORY

USERS = (61001, 61002, 61003)
"""Three users that the machine need not know; the last one means harm."""
DISK_MIB = 256
"""The size of the disk of the daemon's state."""
_HIERARCHIES = ("", "memory", "cpu", "cpuacct")


@dataclass(frozen=True)
class Ground:
    """The places and users of one soak."""

    folder: Path
    users: tuple[int, ...]
    system: bool
    environment: dict[str, str]
    groups: tuple[str, ...]
    paths: Paths

    @property
    def hostile(self) -> int:
        return self.users[-1]

    def home_of(self, uid: int) -> Path:
        """The folder of a user: `work` for logs, `locks` and `lines` for the witness."""
        return self.folder / "users" / str(uid)

    def job_environment(self, uid: int) -> dict[str, str]:
        """What a user's shell would give to `radrm submit`."""
        folder = self.home_of(uid)
        return {
            "PATH": self.environment["PATH"],
            "PYTHONPATH": str(REPOSITORY),
            "PYTHON": sys.executable,
            "HOME": str(folder),
            "SOAK": str(folder),
        }


def prepare() -> Ground:
    """Make the places. As root this needs a mount namespace of our own: see `__main__.py`."""
    system = os.getuid() == 0
    folder = Path(tempfile.mkdtemp(prefix="radrm-soak-"))
    folder.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RADRM_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment["PYTHONPATH"] = str(REPOSITORY)
    environment["RADRM_CONFIG"] = str(folder / "radrm.toml")
    (folder / "radrm.toml").write_text("")
    if system:
        _open_the_way((Path(sys.base_prefix), Path(sys.prefix), REPOSITORY, folder))
        _mount("tmpfs", Path("/var/lib"), f"size={DISK_MIB}m,mode=755")
        _mount("tmpfs", Path("/run"), "size=64m,mode=755")
    else:
        environment["RADRM_HOME"] = str(folder / "home")
    users = USERS if system else (os.getuid(),)
    paths = paths_for(environment, os.getuid())
    ground = Ground(folder, users, system, environment, _enter_groups(), paths)
    for uid in users:
        for name in ("work", "locks"):
            (ground.home_of(uid) / name).mkdir(parents=True)
        for path in (ground.home_of(uid), *ground.home_of(uid).iterdir()):
            os.chown(path, uid, uid if system else -1)
    return ground


def groups_left(ground: Ground) -> list[str]:
    """The control groups below ours, which jobs have left."""
    left = [group for own in ground.groups for group in cgroups.below(own)[1:]]
    return [group for group in left if not group.endswith(f"/{cgroups.OWN}")]


def clear(ground: Ground) -> None:
    """Remove all that `prepare` made, once no process is left. The mounts end with this process."""
    for own in ground.groups:
        cgroups.join(os.path.dirname(own), os.getpid())
        cgroups.remove(own)
    shutil.rmtree(ground.folder, ignore_errors=True)


def _enter_groups() -> tuple[str, ...]:
    """Enter a control group of our own in each hierarchy, so that those of our jobs lie below."""
    found = []
    for controller in _HIERARCHIES:
        above = cgroups.own_group(controller)
        own = f"{above}/radrm-soak-{os.getpid()}"
        if above is not None and cgroups.make(own):
            if cgroups.join(own, os.getpid()):
                found.append(own)
            else:
                cgroups.remove(own)
    return tuple(dict.fromkeys(found))


def _open_the_way(needed: tuple[Path, ...]) -> None:
    """Let all users reach these folders, in this namespace."""
    for path in needed:
        for above in reversed(path.resolve().parents):
            if not above.stat().st_mode & 0o001:
                _replace(above, [each.resolve() for each in needed])


def _replace(closed: Path, needed: list[Path]) -> None:
    """Mount an open folder over a closed one, that holds only what is needed of it."""
    below = sorted({path for path in needed if closed in path.parents}, key=lambda p: len(p.parts))
    handles = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in below}
    _mount("tmpfs", closed, "mode=755")
    for path, handle in handles.items():
        if not path.exists():  # else it lies within an earlier one
            path.mkdir(parents=True)
            source = f"/proc/{os.getpid()}/fd/{handle}"  # its name is covered now
            subprocess.run(["mount", "-c", "--bind", source, str(path)], check=True)
        os.close(handle)


def _mount(kind: str, place: Path, options: str) -> None:
    subprocess.run(["mount", "-t", kind, "-o", options, "radrm-soak", str(place)], check=True)
