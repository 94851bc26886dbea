"""The checks of `radrm doctor`, in their order."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from radrm import __version__
from radrm.config import Config, examine_config, find_config
from radrm.errors import BadConfig, Unreachable
from radrm.host.health import disk, served, services
from radrm.host.health.finding import Check, Finding, fail, ok, warn
from radrm.host.service.files import UNIT_PATH
from radrm.host.service.ownership import Ownership
from radrm.host.sockets import connect
from radrm.host.storage.paths import Paths, client_paths, not_running, paths_for

FindErrors = Callable[[str, str], list[str]]
"""A function that returns the errors of a configuration's text, one line each, for its source."""
_DAEMON_LIMIT_S = 20.0
_CODE_LIMIT_S = 60.0
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
    """The checks of a daemon and of the machine.

    `about` is the daemon's answer to `ping`, None if none answers.
    """
    system = paths == paths_for({}, 0)
    owner = 0 if system else uid
    yield Check("systemd", lambda: services.systemd(system))
    if system and uid == 0 and os.path.lexists(UNIT_PATH):
        # It starts a Python with all of radrm, and only root can correct what it finds.
        yield Check("service code", services.code, _CODE_LIMIT_S)
    yield Check("free space", lambda: disk.space(paths.state))
    yield Check("file system", lambda: disk.file_system(paths.state))
    if about is None and os.access(paths.database, os.R_OK):
        yield Check("store", lambda: disk.store(paths.database))
    sound: list[Config] = []
    yield Check("configuration", lambda: configuration(environ, system, find_errors, sound.append))
    config = sound[0] if sound else Config()
    if about is not None and about.get("gpus") not in _REAL_GPUS:
        described = f"the daemon runs on simulated GPUs ({about.get('gpus')})"
        yield Check("GPUs", lambda: ok("GPUs", described))
    else:
        yield from _gpu_checks(config.mps.enabled)
    if about is not None:
        yield from _served_checks(paths, about, config.gpus.isolate, owner)
    yield Check("logging out", services.logind)
    yield Check("traces", lambda: services.traces(config.estimation.trace, owner, uid))


def _gpu_checks(mps: bool) -> Iterator[Check]:
    """The checks of the driver, and if it answers in time, those of its GPUs."""
    from radrm.host.health import gpus

    known: list[gpus.Driver] = []

    def look() -> Finding:
        reason = gpus.absent()
        if reason is not None:
            return gpus.devices(gpus.Driver(reason=reason), gpus.has_hardware())
        from radrm.host.gpus import nvml

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
    yield Check("MIG", lambda: gpus.mig(driver))
    yield Check("persistence mode", lambda: gpus.persistence(driver))
    yield Check("compute mode", lambda: gpus.compute_mode(driver, mps))


def _served_checks(
    paths: Paths, about: Mapping[str, Any], isolate: bool, owner: int
) -> Iterator[Check]:
    """The checks of the daemon's reports. `isolate` is `gpus.isolate`."""
    answers: list[dict[str, Any]] = []

    def look() -> Finding:
        answer = ask(paths, "health")
        if not isinstance(answer, dict) or not isinstance(answer.get("devices"), list):
            return warn(
                "GPU health",
                "the daemon does not report the health of its GPUs",
                "if it is an older version, restart it; running jobs continue",
            )
        answers.append(answer)
        return served.health(answer["devices"], owner == 0)

    if "not_enforced" in about:
        yield Check("limits", lambda: served.limits(about["not_enforced"]))
    if about.get("gpus") in _REAL_GPUS and "not_isolated" in about:
        why_open = about["not_isolated"]
        yield Check("isolation", lambda: served.isolation(why_open, isolate, owner == 0))
    yield Check("GPU health", look)
    if not answers:
        return
    (now,) = answers
    yield Check("SM activity", lambda: served.sm_activity(now["devices"]))
    yield Check("MPS servers", lambda: served.mps(now["mps"]))
    yield Check("launches", lambda: served.launches(now.get("launch_error")))
    yield Check("rules", lambda: served.rules(now.get("rules", ())))
    learned = served.sharing(now.get("sharing", ()))
    if learned is not None:
        yield Check("sharing", lambda: learned)
    unknown = served.unknown_gpus(now.get("unknown_gpus"))
    if unknown is not None:
        yield Check("GPU names", lambda: unknown)


def configuration(
    environ: Mapping[str, str],
    system: bool,
    find_errors: FindErrors,
    use: Callable[[Config], object] = lambda _: None,
    ownership: Ownership | None = None,
) -> Finding:
    """Whether a daemon would accept the configuration, and only root can change that of root's.
    `use` gets its valid part."""
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
    fault = (ownership or Ownership()).way(os.path.abspath(str(file.path))) if system else None
    if fault is not None:
        return warn(name, f"{fault}, and root's daemon obeys it", "let only root write there")
    return ok(name, f"{file.path}: no errors")


# ------------------------------------------------------------------
# Whether a daemon answers, and which one.


_PATIENCE_S = 5.0
_LONGEST_ANSWER = 1 << 20

Asked = tuple[Paths, "dict[str, Any] | str"]
"""The folders of a daemon, and its answer to `ping` or the error."""


def ask_daemons(candidates: Sequence[Paths]) -> list[Asked]:
    """Ask the daemons in the order of every command, up to the first that accepts a request."""
    asked: list[Asked] = []
    for paths in candidates:
        try:
            about = ask(paths, "ping")
            asked.append((paths, about if isinstance(about, dict) else "it is not radrm"))
            break
        except Unreachable as error:
            asked.append((paths, str(error)))
        except (OSError, ValueError, RecursionError) as error:
            asked.append((paths, f"it accepted a request and gave no answer: {error}"))
            break
    return asked


def ask(paths: Paths, op: str) -> Any:
    """The daemon's answer; None if it is not an answer of radrm.

    Raises `Unreachable`, OSError, ValueError, RecursionError.
    """
    with connect(paths.socket, _PATIENCE_S) as client:
        client.sendall(json.dumps({"op": op}).encode() + b"\n")
        with client.makefile("rb") as lines:
            answer = json.loads(lines.readline(_LONGEST_ANSWER))
    return answer.get("result") if isinstance(answer, dict) else None


def daemon(asked: Sequence[Asked]) -> Finding:
    """Whether the daemon that commands use answers, and has this command's version."""
    paths, about = asked[-1]
    system = paths == paths_for({}, 0)
    kind = "the system's" if system else "your own"
    restart = "sudo systemctl restart radrmd" if system else "radrm config reload"
    if isinstance(about, str):
        if about.startswith("no process answers"):
            return warn("daemon", *not_running([paths for paths, _ in asked]))
        stuck = f"{kind}, in {paths.run}: {about}"
        log = "journalctl -u radrmd -n 50; then: " if system else "see its log; then: end it and "
        again = "sudo systemctl restart radrmd" if system else "run radrm daemon"
        return fail("daemon", stuck, f"{log}{again}; running jobs continue")
    version, pid = about.get("version"), about.get("pid")
    if version != __version__:
        other = f"{kind}, process {pid}, is radrm {version} and this command is {__version__}"
        return warn("daemon", other, f"{restart}; running jobs continue")
    return ok("daemon", f"{kind}, process {pid}, answers in {paths.run}, radrm {version}")


def examined(asked: Sequence[Asked]) -> tuple[Paths, dict[str, Any] | None]:
    """The folders of the daemon to check, and its answer to `ping`.

    It is the daemon that answers, or else one that has run here, or else the user's own.
    """
    paths, about = asked[-1]
    if isinstance(about, dict):
        return paths, about
    there = [paths for paths, _ in asked if os.path.isdir(paths.state)]
    return (there or [asked[0][0]])[0], None
