"""The checks of `radrm doctor`, in their order."""

from __future__ import annotations

import functools
import os
import resource
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from radrm.config import Config, examine_config, find_config
from radrm.errors import BadConfig
from radrm.host import isolation
from radrm.host.gpus import nvml
from radrm.host.health import daemon as unit
from radrm.host.health import gpus, kernel, places, served, services
from radrm.host.health.daemon import ask, ask_daemons, daemon, examined, versions
from radrm.host.health.finding import Check, Finding, fail, ok, warn
from radrm.host.health.places import job_files
from radrm.host.processes import cgroups
from radrm.host.storage.paths import Paths, client_paths, paths_for

FindErrors = Callable[[str, str], list[str]]
"""A function that returns the errors of a configuration's text, one line each, for its source."""
_DAEMON_LIMIT_S = 20.0
_STORE_LIMIT_S = 120.0
_CODE_LIMIT_S = 60.0
_VERSIONS_LIMIT_S = 15.0
_REAL_GPUS = ("NVML", "nvidia-smi")
"""The names that a daemon gives to its source of readings if its GPUs are real."""


def all_checks(environ: Mapping[str, str], uid: int, find_errors: FindErrors) -> Iterator[Check]:
    """The checks, one after another. The findings of some decide which others follow.

    Anything that may hang belongs inside a check, because checks have a time limit.
    """
    candidates = client_paths(environ, uid)
    looked: list[tuple[Paths, dict[str, Any] | None]] = []

    def look_for_daemon() -> Finding:
        asked = ask_daemons(candidates)
        looked.append(examined(asked))
        return daemon(asked)

    yield Check("daemon", look_for_daemon, _DAEMON_LIMIT_S)
    paths, about = looked[0] if looked else (candidates[0], None)
    yield from _checks_of(paths, about, environ, uid, find_errors)


def _checks_of(
    paths: Paths,
    about: dict[str, Any] | None,
    environ: Mapping[str, str],
    uid: int,
    find_errors: FindErrors,
) -> Iterator[Check]:
    """The checks of a daemon's folders and of the machine.

    `about` is the daemon's answer to `ping`, None if none answers.
    """
    system = paths == paths_for({}, 0)
    owner = 0 if system else uid
    pid = about.get("pid") if about is not None else None
    pid = pid if type(pid) is int and os.path.isdir(f"/proc/{pid}") else None
    yield Check("systemd", lambda: services.systemd(system, pid))
    if system and unit.is_installed():
        yield Check("service files", unit.files)
        yield Check("service code", unit.code, _CODE_LIMIT_S)
    for wanted in places.folders(paths, system):
        look = functools.partial(places.folder, wanted, owner, served=about is not None)
        yield Check(wanted.name, look)
    yield Check("job files", lambda: job_files(paths, system, uid))
    yield Check("free space", lambda: places.space(paths.state))
    yield Check("file system", lambda: places.file_system(paths.state))
    sound: list[Config] = []
    yield Check("configuration", lambda: configuration(environ, system, find_errors, sound.append))
    config = sound[0] if sound else Config()
    yield Check("cgroup", lambda: _cgroup(pid, _owner(pid)))
    if about is not None and "not_enforced" in about:
        why = about["not_enforced"]
        yield Check("limits", lambda: kernel.limits(why))
    yield Check("open files", lambda: _open_files(pid, config.mps.enabled))
    simulated = about is not None and about.get("gpus") not in _REAL_GPUS
    if about is not None and simulated:
        described = f"the daemon runs on simulated GPUs ({about.get('gpus')})"
        yield Check("GPUs", lambda: ok("GPUs", described))
    else:
        yield from _gpu_checks(config, about is not None)
        yield Check("isolation", lambda: _isolation(about, config.gpus.isolate, owner, uid))
    answers: list[dict[str, Any]] = []
    if about is not None:
        yield from _served_checks(paths, answers)
    yield Check("MPS", lambda: gpus.mps(config.mps.enabled, environ))
    if not simulated:
        yield Check("NVIDIA services", lambda: services.nvidia_services(system))
        root = (_owner(pid) if pid is not None else uid) == 0
        yield Check("containers", lambda: services.docker(root))
    yield Check("logging out", services.logind)
    yield Check("traces", lambda: services.traces(config.estimation.trace, owner, uid))
    moved = served.clock_moved(answers[0].get("clock_moved_s") if answers else None)
    if moved is not None:
        yield Check("clock", lambda: moved)
    yield Check("store", lambda: places.store(paths.database, os.geteuid()), _STORE_LIMIT_S)


def _gpu_checks(config: Config, daemon_runs: bool) -> Iterator[Check]:
    """The checks of the driver, and if it answers in time, those of its GPUs.

    `daemon_runs`: the daemon itself then reports where SM activity comes from.
    """
    known: list[gpus.Driver] = []

    def look() -> Finding:
        found = nvml.find()
        if found.gpus is None:
            driver = gpus.Driver(reason=found.reason)
        else:
            import pynvml  # `find` has checked that it works

            driver = gpus.look(pynvml, found)
        finding = gpus.devices(driver, gpus.has_hardware())
        known.append(driver)
        return finding

    yield Check("GPUs", look)
    if not known or not known[0].gpus:
        return
    (driver,) = known
    mps = config.mps.enabled
    yield Check("GPU driver", lambda: gpus.driver_version(driver))
    yield Check("MIG", lambda: gpus.mig(driver))
    yield Check("persistence mode", lambda: gpus.persistence(driver))
    yield Check("compute mode", lambda: gpus.compute_mode(driver, mps))
    wanted = config.readings.smact
    if not daemon_runs:
        yield Check("SM activity", lambda: gpus.sm_activity(driver, wanted=wanted))
    yield Check("DCGM", lambda: services.dcgm(driver, wanted))
    yield Check("versions", lambda: versions(driver.version, mps), _VERSIONS_LIMIT_S)


def _served_checks(paths: Paths, answers: list[dict[str, Any]]) -> Iterator[Check]:
    """The checks of the daemon's reports. They append the daemon's whole answer to `answers`."""

    def look() -> Finding:
        answer = ask(paths, "health")
        if not isinstance(answer, dict) or not isinstance(answer.get("devices"), list):
            return warn(
                "GPU health",
                "the daemon does not report the health of its GPUs",
                "if it is an older version, restart it; running jobs continue",
            )
        answers.append(answer)
        return served.health(answer["devices"])

    yield Check("GPU health", look)
    if not answers:
        return
    (now,) = answers
    devices, root = now["devices"], now["uid"] == 0
    yield Check("SM activity", lambda: served.sm_activity(devices))
    why_not = now.get("not_capped")
    capping = served.memory_caps(devices, why_not) if isinstance(why_not, dict) else None
    if capping is not None:
        yield Check("memory caps", lambda: capping)
    yield Check("MPS servers", lambda: served.mps(now["mps"]))
    yield Check("unmanaged", lambda: served.unmanaged(devices, now["unmanaged"], root))
    yield Check("CPUs and memory", lambda: served.nodes(now.get("nodes", ())))
    yield Check("rules", lambda: served.rules(now.get("rules", ())))
    learned = served.sharing(now.get("sharing", ()))
    if learned is not None:
        yield Check("sharing", lambda: learned)
    unknown = served.gpu_order(now.get("unknown_gpus", ()))
    if unknown is not None:
        yield Check("GPU order", lambda: unknown)


def _cgroup(daemon: int | None, owner: int | None) -> Finding:
    """Whether the daemon's jobs get control groups; without a daemon, whether they would here."""
    if daemon is not None:
        return kernel.served_group(daemon, owner)
    return kernel.tree_kill(cgroups.place(f"radrm-doctor-{os.getpid()}"))


def _isolation(about: dict[str, Any] | None, wanted: bool, owner: int, uid: int) -> Finding:
    """Whether jobs are isolated; without a daemon, whether they would be.

    `wanted` is `gpus.isolate`, `owner` the daemon's user, `uid` this command's user.
    """
    if about is not None:
        unknown = "this version of the daemon does not say it"
        return kernel.isolation(about.get("not_isolated", unknown), wanted, owner == 0)
    if owner == 0 and uid != 0:
        return ok("isolation", "only root can check it")
    return kernel.isolation(isolation.find(wanted, owner).reason, wanted, owner == 0)


def _owner(pid: int | None) -> int | None:
    """The user of a process; None if there is no such process."""
    try:
        return None if pid is None else os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _open_files(daemon: int | None, mps: bool) -> Finding:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if daemon is not None:
        limits = kernel.file_limits(daemon)
    return kernel.open_files(*limits, mps=mps)


# ------------------------------------------------------------------ the configuration


def configuration(
    environ: Mapping[str, str],
    system: bool,
    find_errors: FindErrors,
    use: Callable[[Config], object] = lambda _: None,
) -> Finding:
    """Whether a daemon would accept the configuration. `use` gets its valid part."""
    name, next_step = "configuration", "list all errors: radrm config check"
    try:
        file = find_config(environ, system)
    except BadConfig as error:
        return fail(name, str(error), next_step)
    if file.text is None:
        where = "" if file.path is None else f"; it would be {file.path}"
        return ok(name, f"no file, defaults are used{where}")
    examined = examine_config(file.text, str(file.path))
    use(examined.config)
    errors = find_errors(file.text, str(file.path))
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return fail(name, errors[0] + more, next_step)
    return ok(name, f"{file.path}: no errors")
