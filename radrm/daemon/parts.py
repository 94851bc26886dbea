"""What the daemon is made of: assemblies that `main` makes, each closed by itself.

Theory of operation. Each assembly is made of what was made before it, and ends what it began; the
loop's thread uses them all. They are closed after the loop has ended, in the order in which nothing
that still runs misses what is gone: estimates and plans, then attempts, then MPS and the readings,
and last the store, into which nobody writes any more.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import Struct

from radrm.config import Config, UserLimits, spool_room
from radrm.core.scheduler import Scheduler
from radrm.core.settings import CoreSettings
from radrm.daemon.checkpoints import Checkpoints
from radrm.daemon.devices import Devices
from radrm.daemon.intake.estimation import Estimation
from radrm.daemon.launching import Site, needs_accounting
from radrm.daemon.probing import Probing
from radrm.daemon.progress import Reports
from radrm.daemon.steps import OuterSteps, make_steps
from radrm.daemon.views.expected import Foresight
from radrm.daemon.watching import variables_of_home
from radrm.deadlines import Costs, Zone
from radrm.host.attempts.elastic.folders import ElasticFolders
from radrm.host.attempts.forking import Forker
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.estimation.probe import SIMULATED_DRIVER, driver_version
from radrm.host.estimation.service import Estimated, EstimationService
from radrm.host.estimation.tracing import Leftovers
from radrm.host.gpus.unmanaged import UnmanagedWatch
from radrm.host.home import Home
from radrm.host.node import NodeWatch
from radrm.host.notices.outbox import Sender
from radrm.host.notify import ServiceManager
from radrm.host.planning.service import Planned, PlanningService
from radrm.host.processes.controllers import Controllers
from radrm.host.progress import Receiver
from radrm.host.storage.arrivals import Arrivals
from radrm.host.storage.paths import Paths
from radrm.host.storage.retention.refused import RefusedFiles
from radrm.host.storage.retention.sweep import EVERY_S, Retention
from radrm.host.storage.spool import has_envelope
from radrm.host.storage.store import Store
from radrm.host.watched.folders import reserved

KILL_GRACE_S = 2.0
"""Real seconds from the end of a job's main process until the rest of its tree is killed."""


class Host(Struct, frozen=True):
    """Whose daemon this is, where its files are, and what the system lets it limit."""

    uid: int
    system: bool
    paths: Paths
    zone: Zone
    controllers: Controllers
    manager: ServiceManager


class Spool(Struct, frozen=True):
    """Where envelopes arrive, and what is kept of refused ones."""

    arrivals: Arrivals
    refused: RefusedFiles

    @classmethod
    def find(cls, config: Config, limits: UserLimits, host: Host) -> Spool:
        """Return it, after what an earlier daemon has left undone there."""
        paths, room = host.paths, spool_room(limits)
        arrivals = Arrivals(
            paths.spool, paths.refused, lambda name: reserved(name, host.system), room
        )
        most = config.retention.refused_mib << 20
        refused = RefusedFiles(paths.refused, most, lambda: arrivals.refused_bytes)
        refused.finish()
        return cls(arrivals, refused)


class Records(Struct, frozen=True):
    """The store, what is removed from it, and the notices that it holds. `close` ends it."""

    store: Store
    retention: Retention
    sender: Sender

    @classmethod
    def open(cls, home: Home, config: Config, clock: Clock, host: Host) -> Records:
        store = home.open_store(host.manager.alive)
        paths, store.energy.zone = host.paths, host.zone
        store.notices.site = config.notify
        store.rows.has_folder = lambda serial: os.path.lexists(f"{paths.attempts}/{serial}")
        store.rows.has_envelope = lambda ticket: has_envelope(paths.spool, ticket)
        every_s = clock.real_s(EVERY_S)
        retention = Retention(config.retention, store.rows, store.energy, paths, every_s=every_s)
        variables = variables_of_home(host.system)
        sender = Sender(store.notices, os.uname().nodename, host.uid == 0, variables)
        return cls(store, retention, sender)

    def close(self) -> None:
        self.store.close()


class Attempting(Struct, frozen=True):
    """What starts and follows attempts. `close` ends its helpers; jobs run on."""

    launcher: Launcher
    forker: Forker
    site: Site
    steps: OuterSteps
    unmanaged: UnmanagedWatch
    node: NodeWatch
    count_every_s: float
    """Seconds between two looks at what jobs have used of the server."""

    @classmethod
    def make(
        cls,
        config: Config,
        host: Host,
        devices: Devices,
        scheduler: Scheduler,
        core: CoreSettings,
        store: Store,
    ) -> Attempting:
        paths, clock, as_root = host.paths, devices.clock, host.uid == 0
        forker = Forker(str(paths.attempts))
        forker.start()
        launcher = Launcher(
            *(paths.state, clock),
            controllers=host.controllers,
            account=needs_accounting(config),
            forker=forker,
        )
        reports = Reports(
            clock,
            scheduler,
            Receiver(paths.progress, as_root),
            config.progress.interval_s,
            devices.interval_s * clock.scale,
        )
        site = Site(
            device_ids=config.device_ids,
            checkpoints=Checkpoints(paths.checkpoints, as_root),
            reports=reports,
            elastic=ElasticFolders(paths.elastic, as_root),
            extra=devices.environment,
            mps=devices.mps,
            drop_privileges=as_root,
            grace_s=core.grace_s,
            kill_grace_s=KILL_GRACE_S,
            cpu_bind=config.node.cpu_bind,
            isolation=devices.isolation,
            caps=devices.caps,
        )
        return cls(
            launcher,
            forker,
            site,
            make_steps(config, store),
            UnmanagedWatch(config.unmanaged, launcher.owner_of, as_root),
            NodeWatch(config.node, shares_refused=host.controllers.shares_refused),
            config.progress.interval_s,
        )

    def close(self) -> None:
        self.site.elastic.close()
        self.forker.close()


class Estimates(Struct, frozen=True):
    """Estimators and slow planners in processes of their own. `close` ends these."""

    estimation: Estimation
    planning: PlanningService
    probing: Probing
    _service: EstimationService

    @classmethod
    def make(
        cls,
        config: Config,
        host: Host,
        devices: Devices,
        scheduler: Scheduler,
        store: Store,
        post: Callable[[Estimated | Planned], None],
    ) -> Estimates:
        """`post` takes their answers, from any thread."""
        service = EstimationService(config, post, leftovers=Leftovers(host.paths.traces))
        simulated_s = devices.interval_s * devices.clock.scale if devices.is_simulated else None
        driver = SIMULATED_DRIVER if devices.is_simulated else driver_version()
        estimation = Estimation(config, store, service, scheduler, driver)
        wanted = config.estimation.probe and config.estimator == "auto"
        probing = Probing(estimation, wanted, simulated_s)
        return cls(estimation, PlanningService(config, post, host.zone), probing, service)

    def begin(self) -> None:
        self._service.begin()

    def close(self) -> None:
        self._service.close()
        self.planning.close()


class Parts(Struct, frozen=True):
    """All that the loop uses."""

    scheduler: Scheduler
    devices: Devices
    spool: Spool
    records: Records
    attempts: Attempting
    estimates: Estimates
    foresight: Foresight
    costs: Costs
    users: UserLimits
    hints: bool
    """Whether `radrm status` may end with the commands that one needs next."""
    manager: ServiceManager
    check: Callable[[], None]
    """Raises `RadrmError` if a daemon could not start with the configuration as it is now."""

    def close(self, is_home_here: bool) -> None:
        """Without its home, the control daemons of MPS there are another daemon's."""
        self.estimates.close()
        self.attempts.close()
        self.devices.close(ends_mps=is_home_here)
        self.records.close()
