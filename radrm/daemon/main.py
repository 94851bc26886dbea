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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from radrm import __version__
from radrm.config import (
    Config,
    contradictions,
    limits_of,
    load_config,
    resolved,
    with_limits,
    with_set,
)
from radrm.core.events import DevicesSeen
from radrm.core.records import Device
from radrm.core.rules import Rules
from radrm.core.scheduler import Scheduler
from radrm.daemon import replacing
from radrm.daemon.answers.requests import Requests
from radrm.daemon.devices import find_devices
from radrm.daemon.loop import Inbox, Loop
from radrm.daemon.parts import Attempting, Estimates, Host, Parts, Records, Spool
from radrm.daemon.rule_limit import RuleLimit
from radrm.daemon.serving.server import Server
from radrm.daemon.views.expected import Foresight
from radrm.daemon.watching import Watching
from radrm.deadlines import Costs, Zone
from radrm.errors import Refused, plain
from radrm.host.arenas import limit_arenas
from radrm.host.clock import site_zone
from radrm.host.estimation.asking import Asking
from radrm.host.gpus.readings import check_names
from radrm.host.home import Home
from radrm.host.newer import refuse_newer
from radrm.host.notify import ServiceManager
from radrm.host.processes.controllers import prepare as prepare_controllers
from radrm.host.storage.files import take_lock
from radrm.host.storage.paths import Paths, paths_for, prepare, prepare_run, system_mode
from radrm.host.wall import stand_in_for_time
from radrm.simulated.spec import parse
from radrm.wiring import make_costs, make_rules, make_settings

log = logging.getLogger("radrm")

SHORTEST_PATIENCE_S = 3.0
"""Fewest real seconds for which a reading stays valid, at any speed of the clock."""


def run(gpus: str | None, time_scale: float, settings: Sequence[str]) -> None:
    """Serve until TERM or INT; jobs run on. Raises `RadrmError` if the daemon cannot start."""
    hung_up, environment = replacing.begin(), dict(os.environ)
    faulthandler.enable()  # systemd ends a loop that hangs with ABRT: the log then shows where
    limit_arenas()
    manager = ServiceManager(os.environ)  # before anything is started that would inherit
    uid = os.getuid()
    system = system_mode(os.environ, uid)
    paths, zone = paths_for(os.environ, uid), site_zone()
    # Raises for a bad setting or specification, before anything is locked or made.
    chosen = config, _, _ = read_settings(system, settings, zone)
    if gpus is not None:
        parse(gpus)
    refuse_newer(paths)
    prepare(paths, system)

    def check() -> Config:
        replacing.check_program()
        return read_settings(system, settings, zone)[0]

    with _lock(paths):
        home = Home(paths, system)
        home.hold(paths.lock)  # without it, a second daemon could begin
        # Before anything is started that would be in another control group.
        host = Host(uid, system, paths, zone, prepare_controllers(), manager)
        spool = Spool.find(config, limits_of(config, system, uid), host)
        inbox = Inbox()
        parts = _make_parts(home, chosen, host, spool, (gpus, time_scale), inbox, check)
        answers = _Answers(parts, host, config)
        loop = Loop(parts, inbox, answers.requests.answer)
        first = DevicesSeen(at=loop.clock.now(), devices=parts.devices.source.devices())
        _on_signals(loop)
        if hung_up():
            loop.reload_soon()
        try:
            attempts = parts.attempts
            parts.devices.begin(loop.read_soon, attempts.launcher.owner_of, attempts.site.grace_s)
            answers.start(loop, first.devices)
            parts.estimates.begin()
            loop.run(first)
        finally:
            (manager.reloading if loop.again else manager.stopping)()
            answers.close()
            home.note_used(parts.records.store)
            parts.close(home.is_here)
        log.info("radrm ends; running jobs run on, and the next daemon re-adopts them")
    if loop.again:
        replacing.replace(environment, lambda: loop.again)


def _make_parts(
    home: Home,
    chosen: tuple[Config, Rules, Costs],
    host: Host,
    spool: Spool,
    asked: tuple[str | None, float],
    inbox: Inbox,
    check: Callable[[], Config],
) -> Parts:
    """Find the devices (`asked`: simulated ones, and the speed of their clock), open the store."""
    config, rules, costs = chosen
    if (why := host.controllers.why_not("cpu", "memory")) is not None:
        log.warning("%s", why)
    host.manager.begins("looks for the GPUs")
    devices = find_devices(host.paths, config, *asked, host.uid)
    limits, scale = limits_of(config, host.system, host.uid), devices.clock.scale
    limit = RuleLimit()
    core = make_settings(
        config,
        devices.interval_s * scale,
        os.cpu_count(),
        patience_s=SHORTEST_PATIENCE_S * scale,
        exempt=tuple(limits.exempt),
    ).with_real_limits(scale)
    scheduler = Scheduler(rules, core, limit=limit)
    host.manager.begins("opens the store")
    records = Records.open(home, config, devices.clock, host)
    store = records.store
    return Parts(
        scheduler,
        devices,
        spool,
        records,
        Attempting.make(config, host, devices, scheduler, core, store),
        Estimates.make(config, host, devices, scheduler, store, inbox.post),
        Foresight(scheduler, rules.planners, costs, limit),
        costs,
        limits,
        config.hints,
        host.manager,
        lambda: check_names(devices.source, check().gpus),
    )


class _Answers:
    """The socket, and what is answered there; the folders of users beside it."""

    def __init__(self, parts: Parts, host: Host, config: Config) -> None:
        devices = parts.devices
        self._parts, self._host = parts, host
        self._watching = Watching(host.paths, host.system)
        self._server: Server | None = None
        self._about = {
            "gpus": devices.description,
            "policy": config.policy,
            "order": config.order,
            "estimator": config.estimator,
            "slurm": config.slurm.enabled,
            "state": host.paths.state,
            "started_at": devices.clock.now().wall_s,
            "not_enforced": host.controllers.why_not("cpu", "memory"),
        }
        self.requests = Requests(self._about, self._watching.folder_of)

    def start(self, loop: Loop, devices: tuple[Device, ...]) -> None:
        """Answer from now on; what is asked waits in the queue until the loop runs."""
        parts, paths, system = self._parts, self._host.paths, self._host.system
        if not parts.devices.is_simulated:
            self._about["not_isolated"] = parts.devices.isolation.why_not(devices)

        def make_run_folder() -> None:
            parts.records.store.check_home()  # a home that is gone is not made anew
            prepare_run(paths, system)

        self._server = Server(paths.socket, system, loop.post, parts.users, make_run_folder)
        loop.connections_of = self._server.connections_of
        self._server.start()
        self._watching.start()
        log.info(
            "radrm %s is up: %d device(s) (%s), policy %s, state in %s",
            __version__,
            len(devices),
            self._about["gpus"],
            self._about["policy"],
            paths.state,
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._watching.close()


def _on_signals(loop: Loop) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.stop())
    attended = _has_terminal()

    def hang_up(*_: object) -> None:
        """A terminal that is closed ends the daemon; any other HUP reloads."""
        (loop.stop if attended and not _has_terminal() else loop.reload_soon)()

    signal.signal(signal.SIGHUP, hang_up)


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
    return config, make_rules(config, zone, sessions=True), make_costs(config, zone)


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
    # No entry says where in the code it is from, and in which thread: to find out takes longer
    # than to write it (see "Optimization" in Python's documentation of `logging`).
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)-7s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


@contextmanager
def _lock(paths: Paths) -> Iterator[None]:
    """Hold the lock that admits one daemon per spool. Raises `Refused` if another daemon has it."""
    lock = take_lock(paths.lock)
    if lock is None:
        raise Refused(
            f"another radrm daemon already serves {paths.state}; "
            "`radrm status` talks to it, RADRM_HOME=DIR makes a second one apart"
        )
    try:
        yield
    finally:
        os.close(lock)
