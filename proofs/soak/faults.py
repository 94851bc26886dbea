"""What goes wrong around the daemon: kills, a frozen process, a full disk, broken GPUs.

A fault begins at once. What it has broken is repaired later, by a function that it gives to
`World.later`. While it makes the daemon slow by intention, it says so with `World.disturb`, so
that the latencies of that time are told apart.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from proofs.server import driver
from proofs.soak.daemon import Daemon
from proofs.soak.samples import FILLER
from proofs.soak.users import spawn
from radrm.errors import RadrmError

_LOOK_S = 0.1


class World(Protocol):
    """What a fault may use of the soak."""

    daemon: Daemon
    chance: random.Random
    full_until_s: float
    """Until when (seconds since the epoch) the disk may be full."""

    def later(self, seconds: float, undo: Callable[[], None]) -> None:
        """Have this called after so many seconds."""

    def disturb(self, seconds: float) -> None:
        """Note that the daemon is not to be measured for so long from now on; less than 0: until
        now."""

    def note_kill(self, victim: str) -> None:
        """Note which process was killed now."""

    def complain(self, finding: str) -> None:
        """Note something wrong with the daemon."""

    def own(self, pid: int) -> None:
        """Note a process of the soak itself, which it ends and reaps."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: how often it comes (mean seconds between two), and when."""

    name: str
    every_s: float
    begin: Callable[[World], bool]
    """Returns False if there was nothing to break."""
    restarts: bool = False
    """It ends the daemon: it comes in the second fifth of the soak only, so that the last daemon
    lives long enough to show what it leaks."""
    own_disk: bool = False
    """Only where the disk of the state is the soak's own."""


def kill_daemon(world: World) -> bool:
    _replace(world, signal.SIGKILL)
    return True


def restart_daemon(world: World) -> bool:
    _replace(world, signal.SIGTERM)
    return True


def _replace(world: World, number: int) -> None:
    """End the daemon and start another, which may be killed before it answers."""
    served, began = not world.daemon.silent, time.monotonic()
    world.note_kill(f"{world.daemon.pid} the daemon, signal {number}")
    world.daemon.end(number)
    if served and number == signal.SIGTERM and world.daemon.ended:
        world.complain(f"the daemon ended with status {world.daemon.ended} after TERM")
    begin(world, began)


def begin(world: World, began: float) -> None:
    """Start a daemon. From `began` (monotonic time) until it answers nobody is served."""
    daemon = world.daemon
    daemon.begin()
    life = daemon.lives

    def look() -> None:
        if daemon.lives == life and not daemon.answers():
            world.later(_LOOK_S, look)
        else:
            world.disturb(began - time.monotonic())

    world.later(_LOOK_S, look)


def kill_driver(world: World) -> bool:
    """All jobs on GPUs lose their memory, as after a crash of a real driver. Only a new daemon
    starts a simulated driver, so the daemon is killed, too."""
    with contextlib.suppress(RadrmError), world.daemon.driver() as driver:
        os.kill(driver.hello().pid, signal.SIGKILL)
    return kill_daemon(world)


def kill_runner(world: World) -> bool:
    runners = world.daemon.runners()
    if not runners:
        return False
    victim = world.chance.choice(runners)
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim.pid, signal.SIGKILL)
    world.note_kill(str(victim))
    return True


def freeze(world: World) -> bool:
    if world.daemon.silent:
        return False
    seconds, life = world.chance.uniform(1.0, 5.0), world.daemon.lives
    world.disturb(seconds)
    world.daemon.freeze()
    world.later(seconds, lambda: world.daemon.thaw() if world.daemon.lives == life else None)
    return True


def fill_disk(world: World) -> bool:
    filler = _filler(world)
    seconds = world.chance.uniform(2.0, 6.0)
    if filler.exists():
        return False
    world.disturb(seconds + 5.0)  # the daemon tries to save again every 5 s
    world.full_until_s = time.time() + seconds + 5.0
    handle = os.open(filler, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(handle, "wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(filler.parent).free)
        with contextlib.suppress(OSError):
            file.seek(0, os.SEEK_END)
            while file.write(b"x" * 4096):
                pass
    world.later(seconds, filler.unlink)
    return True


def _filler(world: World) -> Path:
    return Path(world.daemon.ground.paths.state) / FILLER


def break_gpu(world: World) -> bool:
    """A GPU has fallen off the bus, and comes back."""
    try:
        uuid = world.chance.choice(sorted(world.daemon.used_mib()))
        with world.daemon.driver() as driver:
            driver.ask("fail", uuid=uuid, message="Xid 79: the GPU has fallen off the bus")
    except RadrmError:
        return False

    def heal() -> None:
        # A driver that was killed meanwhile has forgotten the fault.
        with contextlib.suppress(RadrmError), world.daemon.driver() as driver:
            driver.ask("heal", uuid=uuid)

    world.later(world.chance.uniform(1.0, 6.0), heal)
    return True


def take_memory(world: World) -> bool:
    """A process that radrm did not start takes most of a GPU for some seconds."""
    ground, seconds = world.daemon.ground, world.chance.uniform(3.0, 8.0)
    device = str(world.chance.randrange(2))

    def hold() -> None:
        with contextlib.suppress(RadrmError, Exception), driver(ground.paths) as client:
            client.attach(device, smact=0.5)
            client.alloc(20_000)
            client.start()
            time.sleep(seconds)

    world.own(spawn(ground.hostile, hold))
    return True


FAULTS = (
    Fault("daemon killed (KILL)", 2.5, kill_daemon, restarts=True),
    Fault("daemon restarted (TERM)", 30.0, restart_daemon, restarts=True),
    Fault("GPU driver killed, with the daemon", 60.0, kill_driver, restarts=True),
    Fault("runner killed (KILL)", 3.0, kill_runner),
    Fault("daemon frozen (STOP, 1-5 s)", 60.0, freeze),
    Fault("disk full (2-6 s)", 120.0, fill_disk, own_disk=True),
    Fault("GPU lost and back (Xid 79)", 40.0, break_gpu),
    Fault("unmanaged process takes 20 GB of a GPU", 30.0, take_memory),
)
