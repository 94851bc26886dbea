"""Put the daemon together, and end it, or start it anew: one foreground process.

Theory of operation. Settings are checked first, so that a mistake changes nothing on disk, and
whether a newer radrm has worked in this home (`host/newer.py`). Then the lock keeps other daemons
of this home away, until this process ends. Only the holder of the lock opens the store. The
socket answers before the loop adopts running attempts: requests wait in the queue until then.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import filelock

from radrm import __version__
from radrm.config import (
    Config,
    contradictions,
    limits_of,
    load_config,
    resolved,
    spool_room,
    with_limits,
    with_set,
)
from radrm.core.events import DevicesSeen
from radrm.core.rules import Rules
from radrm.core.scheduler import Scheduler
from radrm.daemon import replacing
from radrm.daemon.answers.requests import Requests
from radrm.daemon.checkpoints import Checkpoints
from radrm.daemon.intake.estimation import Estimation
from radrm.daemon.launching import Site, needs_accounting
from radrm.daemon.loop import Loop, Parts
from radrm.daemon.monitor import Monitor
from radrm.daemon.probing import Probing
from radrm.daemon.progress import Reports
from radrm.daemon.rule_limit import RuleLimit
from radrm.daemon.serving.server import Server
from radrm.daemon.steps import make_steps
from radrm.daemon.views.expected import Foresight
from radrm.daemon.watching import Watching, variables_of_home
from radrm.deadlines.costs import Costs, Zone
from radrm.errors import DeviceError, Refused, UsageError, plain
from radrm.host.arenas import limit_arenas
from radrm.host.attempts.elastic.folders import ElasticFolders
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock, site_zone
from radrm.host.estimation.asking import Asking
from radrm.host.estimation.probe import SIMULATED_DRIVER, driver_version
from radrm.host.estimation.service import EstimationService
from radrm.host.estimation.tracing import Leftovers
from radrm.host.gpus.memory_caps import CappedGpus, MemoryCaps, nvml_caps, why_never
from radrm.host.gpus.served import open_served, served
from radrm.host.gpus.source import GpuSource
from radrm.host.gpus.unmanaged import UnmanagedWatch
from radrm.host.home import Home
from radrm.host.isolation import Isolation
from radrm.host.isolation import find as find_isolation
from radrm.host.mps.interface import DaemonHooks, Mps
from radrm.host.mps.mps_gpus import EnabledOnly, MpsGpus
from radrm.host.mps.service import MpsService
from radrm.host.mps.simulated import SimulatedMps
from radrm.host.newer import refuse_newer
from radrm.host.node import NodeWatch
from radrm.host.notices.outbox import Sender
from radrm.host.notify import ServiceManager
from radrm.host.planning.service import PlanningService
from radrm.host.processes.controllers import prepare as prepare_controllers
from radrm.host.progress import Receiver
from radrm.host.simulated.simulated_gpus import SimulatedGpus
from radrm.host.simulated.start_driver import ensure_driver
from radrm.host.storage.arrivals import Arrivals
from radrm.host.storage.paths import Paths, paths_for, prepare, prepare_run, system_mode
from radrm.host.storage.retention.refused import RefusedFiles
from radrm.host.storage.retention.sweep import EVERY_S, Retention
from radrm.host.storage.spool import has_envelope
from radrm.host.wall import stand_in_for_time
from radrm.host.watched.folders import reserved
from radrm.simulated.spec import parse
from radrm.wiring import make_costs, make_rules, make_settings

log = logging.getLogger("radrm")

SHORTEST_INTERVAL_S = 0.1
"""Fewest real seconds between two rounds of readings, at any speed of the clock."""
SHORTEST_PATIENCE_S = 3.0
"""Fewest real seconds for which a reading stays valid, at any speed of the clock."""
KILL_GRACE_S = 2.0
"""Real seconds from the end of a job's main process until the rest of its tree is killed."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The source of devices, with the clock, environment and MPS that belong to it."""

    source: GpuSource
    clock: Clock
    environment: Mapping[str, str]
    mps: Mps | None
    description: str
    renew: Callable[[], GpuSource] | None = None
    """Opens a new source, for when a call of `source` never returns."""
    caps: MemoryCaps | None = None


def run(gpus: str | None, time_scale: float, settings: Sequence[str]) -> None:
    """Serve until TERM or INT; jobs run on. Raises `RadrmError` if the daemon cannot start."""
    hung_up, environment = replacing.begin(), dict(os.environ)
    faulthandler.enable()  # systemd ends a loop that hangs with ABRT: the log then shows where
    limit_arenas()
    manager = ServiceManager(os.environ)  # before anything is started that would inherit
    uid = os.getuid()
    system = system_mode(os.environ, uid)
    paths = paths_for(os.environ, uid)
    zone = site_zone()
    # Raises for a bad setting, before anything is locked or made.
    config, rules, costs = read_settings(system, settings, zone)
    limits = limits_of(config, system, uid)
    if gpus is not None:
        parse(gpus)  # raises for a bad specification, before anything is locked or made
    refuse_newer(paths)
    prepare(paths, system)
    with _lock(paths):
        home = Home(paths, system)
        home.hold(paths.lock)  # without it, a second daemon could begin
        arrivals = Arrivals(
            paths.spool, paths.refused, lambda name: reserved(name, system), spool_room(limits)
        )
        most = config.retention.refused_mib << 20
        refused = RefusedFiles(paths.refused, most, lambda: arrivals.refused_bytes)
        refused.finish()
        controllers = prepare_controllers()  # before anything is started
        not_enforced = controllers.why_not("cpu", "memory")
        if not_enforced is not None:
            log.warning("%s", not_enforced)
        manager.begins("looks for the GPUs")
        devices = find_devices(paths, config, gpus, time_scale)
        isolation = find_isolation(config.gpus.isolate, uid) if gpus is None else Isolation()
        interval_s = max(SHORTEST_INTERVAL_S, devices.clock.real_s(config.readings.interval_s))

        scale, limit = devices.clock.scale, RuleLimit()
        core = make_settings(
            config,
            interval_s * scale,
            os.cpu_count(),
            patience_s=SHORTEST_PATIENCE_S * scale,
            exempt=tuple(limits.exempt),
        ).with_real_limits(scale)
        scheduler = Scheduler(rules, core, limit=limit)
        manager.begins("opens the store")
        store = home.open_store(manager.alive)
        store.energy.zone = zone
        store.notices.site = config.notify
        store.rows.has_folder = lambda serial: os.path.lexists(f"{paths.attempts}/{serial}")
        store.rows.has_envelope = lambda ticket: has_envelope(paths.spool, ticket)
        account = needs_accounting(config)
        launcher = Launcher(paths.state, devices.clock, controllers=controllers, account=account)
        service = EstimationService(
            config, lambda found: loop.post(found), leftovers=Leftovers(paths.traces)
        )
        planning = PlanningService(config, lambda found: loop.post(found), zone)
        simulated_s = None if gpus is None else interval_s * devices.clock.scale
        driver = driver_version() if gpus is None else SIMULATED_DRIVER
        estimation = Estimation(config, store, service, scheduler, driver)

        def check() -> None:
            replacing.check_program()
            read_settings(system, settings, zone)

        retention = Retention(
            config.retention,
            store.rows,
            store.energy,
            paths,
            every_s=devices.clock.real_s(EVERY_S),
        )
        parts = Parts(
            clock=devices.clock,
            scheduler=scheduler,
            store=store,
            arrivals=arrivals,
            launcher=launcher,
            monitor=lambda post: Monitor(
                devices.source,
                devices.clock,
                launcher.owner_of,
                post,
                interval_s,
                devices.renew,
                config.readings.interval_s,
            ),
            estimation=estimation,
            planning=planning,
            probing=Probing(
                estimation, config.estimation.probe and config.estimator == "auto", simulated_s
            ),
            site=Site(
                device_ids=config.device_ids,
                checkpoints=Checkpoints(paths.checkpoints, uid == 0),
                reports=Reports(
                    devices.clock,
                    scheduler,
                    Receiver(paths.progress, uid == 0),
                    config.progress.interval_s,
                    interval_s * devices.clock.scale,
                ),
                elastic=ElasticFolders(paths.elastic, uid == 0),
                extra=devices.environment,
                mps=devices.mps,
                drop_privileges=uid == 0,
                grace_s=core.grace_s,
                kill_grace_s=KILL_GRACE_S,
                cpu_bind=config.node.cpu_bind,
                isolation=isolation,
                caps=devices.caps,
            ),
            node=NodeWatch(config.node, shares_refused=controllers.shares_refused),
            costs=costs,
            foresight=Foresight(scheduler, rules.planners, costs, limit),
            retention=retention,
            sender=Sender(store.notices, os.uname().nodename, uid == 0, variables_of_home(system)),
            refused=refused,
            count_every_s=config.progress.interval_s,
            manager=manager,
            users=limits,
            check=check,
            steps=make_steps(config, devices.clock, store),
            unmanaged=UnmanagedWatch(config.unmanaged, launcher.owner_of, uid == 0),
        )
        about = {
            "gpus": devices.description,
            "policy": config.policy,
            "order": config.order,
            "estimator": config.estimator,
            "state": paths.state,
            "started_at": devices.clock.now().wall_s,
            "not_enforced": not_enforced,
        }
        watching = Watching(paths, system)
        loop = Loop(parts, Requests(about, watching.folder_of).answer)
        first = DevicesSeen(at=devices.clock.now(), devices=devices.source.devices())
        if gpus is None:
            about["not_isolated"] = isolation.why_not(first.devices)
        if devices.mps is not None:
            daemon = DaemonHooks(launcher.owner_of, loop.read_soon, loop.devices_seen, core.grace_s)
            devices.mps.begin(daemon)

        def make_run_folder() -> None:
            store.check_home()  # a home that is gone is not made anew
            prepare_run(paths, system)

        server = Server(paths.socket, system, loop.post, limits, make_run_folder)
        loop.connections_of = server.connections_of
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: loop.stop())
        attended = _has_terminal()

        def hang_up(*_: object) -> None:
            """A terminal that is closed ends the daemon; any other HUP reloads."""
            (loop.stop if attended and not _has_terminal() else loop.reload_soon)()

        signal.signal(signal.SIGHUP, hang_up)
        if hung_up():
            loop.reload_soon()
        server.start()
        service.begin()
        watching.start()
        log.info(
            "radrm %s is up: %d device(s) (%s), policy %s, state in %s",
            __version__,
            len(first.devices),
            devices.description,
            config.policy,
            paths.state,
        )
        try:
            loop.run(first)
        finally:
            (manager.reloading if loop.again else manager.stopping)()
            server.close()
            watching.close()
            service.close()
            planning.close()
            parts.site.elastic.close()
            if devices.mps is not None and home.is_here:  # else it is another daemon's
                devices.mps.close()
            devices.source.close()
            store.close()
        log.info("radrm ends; running jobs run on, and the next daemon re-adopts them")
    if loop.again:
        replacing.replace(environment, lambda: loop.again)


class _OneLine(logging.Formatter):
    """Makes each entry one plain line, because names, reasons and paths are users' text."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return plain(super().formatMessage(record))


def read_settings(system: bool, settings: Sequence[str], zone: Zone) -> tuple[Config, Rules, Costs]:
    """Return the configuration in force, with each `--set`, and the rules that it chooses.

    Raises `BadConfig` for all with which a daemon would not start.
    """
    config = _configuration(system, settings)
    Asking(config)
    make_settings(config, cpus=os.cpu_count())
    return config, make_rules(config, zone), make_costs(config, zone)


def _configuration(system: bool, settings: Sequence[str]) -> Config:
    config = load_config(os.environ, system)
    for setting in settings:
        config = with_set(config, setting)
    config = resolved(config)
    config = with_limits(config, limits_of(config, system, os.getuid()))
    for cause in contradictions(config):
        log.warning("%s", cause)
    return config


def _has_terminal() -> bool:
    """Return whether this process has a controlling terminal that has not hung up."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def set_up_logging() -> None:
    """One line per event on standard error, which a service manager keeps."""
    stand_in_for_time()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)-7s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _lock(paths: Paths) -> AbstractContextManager[object]:
    """The lock that admits one daemon per spool. The kernel holds it, so no stale lock stays.

    Raises `Refused` if another daemon has it.
    """
    try:
        return filelock.FileLock(paths.lock, timeout=0, mode=0o600).acquire()
    except filelock.Timeout:
        raise Refused(
            f"another radrm daemon already serves {paths.state}; "
            "`radrm status` talks to it, RADRM_HOME=DIR makes a second one apart"
        ) from None


def find_devices(paths: Paths, config: Config, gpus: str | None, time_scale: float) -> Devices:
    """Simulated GPUs if `gpus` is given, else the real ones; never one in place of the other."""
    if gpus is not None:
        driver = ensure_driver(Path(paths.run), gpus, time_scale)
        source = served(
            SimulatedGpus(driver.socket, mps=config.mps.enabled),
            config.gpus,
        )
        return Devices(
            source=EnabledOnly(source, config.mps) if config.mps.only else source,
            clock=driver.clock,
            environment={"RADRM_SIMULATED_GPUS": str(driver.socket)},
            mps=SimulatedMps(paths.run, config.mps) if config.mps.enabled else None,
            description=gpus,
        )
    if time_scale != 1.0:
        raise UsageError("--time-scale goes with simulated GPUs only: add --gpus sim:4xA100-40GB")
    try:
        gpus_here = open_served(config)
    except DeviceError as error:
        raise DeviceError(
            f"no NVIDIA GPU can be used: {error}; "
            "to run on simulated GPUs: radrm daemon --gpus sim:4xA100-40GB"
        ) from error
    mps = MpsService(config.mps, paths.run)
    caps = MemoryCaps(nvml_caps(), why_never(config.gpus.memory_caps, gpus_here.name))

    def around(source: GpuSource) -> GpuSource:
        return CappedGpus(MpsGpus(source, mps), caps)

    return Devices(
        source=around(gpus_here),
        clock=Clock(),
        environment={},
        mps=mps,
        description="NVML" if gpus_here.name == "nvml" else gpus_here.name,
        renew=lambda: around(open_served(config)),
        caps=caps,
    )
