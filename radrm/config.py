"""The configuration: TOML text to a checked `Config`, and where that text lies.

    RADRM_CONFIG                        when set; it must be there then
    /etc/radrm/radrm.toml               for the daemon of the whole server
    $XDG_CONFIG_HOME/radrm/radrm.toml   for a user's own

Words are checked here: keys, types, choices. Whether a rule of some name exists,
and which settings it takes, is for the rule and for `wiring` to say.
"""

from __future__ import annotations

import difflib
import ipaddress
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from radrm.core.words import Collocation
from radrm.errors import BadConfig

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

Table = Mapping[str, Any]
RuleTables = Mapping[str, Table]
"""A rule's settings by the rule's name."""


MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class MpsConfig:
    """Settings of the table `[mps]`."""

    enabled: bool = False
    """Let jobs of one user share a GPU through CUDA MPS, with memory caps. In a file also a list
    of the GPUs that are meant, as in `[0, 1, "GPU-1a2b3c4d"]`: indices, UUIDs or the beginning of
    one."""
    only: tuple[str, ...] = ()
    """The GPUs of such a list; empty: all. `enabled` is written there, not this."""
    scope: str = "gpu"
    """`gpu`: a control daemon for each GPU, so that a fault on one ends nobody on another; jobs
    on several GPUs are not clients then. `server`: one control daemon for all."""
    active_thread_percentage: int = 100
    """The most of a GPU's SMs that one client may use, 1 to 100; 100: no limit."""
    set_compute_mode: bool = False
    """Put a GPU into EXCLUSIVE_PROCESS while it has clients, and back afterwards. As root only."""
    multiuser: bool = False
    """Let jobs of several users be clients of one MPS server at a time, where the driver turns out
    to do that. As root only. To CUDA they are all root's then: nothing separates their memory."""

    def to_table(self) -> dict[str, Any]:
        """As it stands in a file."""
        table = asdict(self)
        only = table.pop("only")
        if self.enabled and only:
            table["enabled"] = [int(word) if word.isdecimal() else word for word in only]
        return table


@dataclass(frozen=True, slots=True)
class ReadingsConfig:
    """Settings of the table `[readings]`: how real GPUs are read. Software GPUs read themselves."""

    source: str = "auto"
    """What lists and reads the GPUs: `nvml`, or `nvidia-smi` where NVML cannot be used from
    Python. `auto`: the first of them that works."""
    smact: str = "auto"
    """Where SM activity comes from: `gpm` (counters that NVML reads, Hopper and newer), `dcgm`
    (`dcgmi dmon`), `dcgm-exporter`, or `utilization` (coarse: see `core.use_coarse_smact`).
    `auto`: for each GPU the first of them that delivers. With one of the first three words, a GPU
    that it does not serve takes nobody beside others."""
    dcgm_exporter: str = "http://127.0.0.1:9400/metrics"
    """Where dcgm-exporter serves its metrics: http, on this machine. It must count
    DCGM_FI_PROF_SM_ACTIVE (off by default) and renew its numbers at least every 5 s
    (`--collect-interval=1000`). In `auto` it is believed only where root or the daemon's own
    user serves that port."""


@dataclass(frozen=True, slots=True)
class StrangersConfig:
    """Settings of the table `[strangers]`: processes on a GPU that radrm did not start. Whatever
    is chosen here, their memory counts as used and `radrm gpus` shows them."""

    action: str = "count"
    """`count`: nothing more. `warn`: each of them is told of once in the log, and `radrm status`
    and `radrm doctor` speak of them. `drain`: a GPU of which they use more than
    `core.idle_unmanaged_mib` takes no new job until they are gone. `signal`: as `warn`; one that
    has been on a GPU for `grace_s` without a break gets TERM, and KILL if it is still there
    `kill_grace_s` later. Only a daemon that is root signals, and never on a GPU that is drained."""
    grace_s: float = 300.0
    """Seconds that a stranger may stay before it gets TERM."""
    kill_grace_s: float = 30.0
    """Seconds from TERM to KILL."""
    spare: tuple[str, ...] = ()
    """Programs that are neither told of nor signalled, as `["ollama"]`, by the name of their
    executable file; it must belong to root, and only root may write it. Display servers, MPS and
    NVIDIA's own services are always spared."""
    spare_users: tuple[str, ...] = ()
    """Users whose processes are spared likewise, by login name, as `["triton"]`."""

    @property
    def for_core(self) -> Table:
        """What it means for the settings in `[core]`."""
        return {"yield_to_unmanaged": True} if self.action == "drain" else {}

    def to_table(self) -> dict[str, Any]:
        """As it stands in a file."""
        lists = {"spare": list(self.spare), "spare_users": list(self.spare_users)}
        return {**asdict(self), **lists}


@dataclass(frozen=True, slots=True)
class EstimationConfig:
    """Settings of the table `[estimation]`: how the estimators are asked."""

    time_limit_s: float = 5.0
    """So long the estimators may think about one job, 0.1 to 600; then it goes on without."""
    trace: bool = True
    """Trace the training step of a job that names its `--model-factory`, as its user and in its
    Python, where the estimator is `auto`, `trace` or `faketensor`."""
    probe: bool = True
    """Measure what a CUDA context takes, once for each kind of GPU, driver and CUDA: by a job of
    the first user whose traced program has that CUDA, for seconds, on a GPU of its own, behind
    all other jobs."""
    trace_limit_s: float = 60.0
    """So long a trace may take, 1 to 3600; the job waits for it, nobody else does."""
    trace_memory_mib: int = 8192
    """So much host memory a trace may take, from 512 on."""


@dataclass(frozen=True, slots=True)
class DaemonConfig:
    """Settings of the table `[daemon]`. There is none yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a site or a user may choose. Every field has a default that works."""

    policy: str = "magm"
    """Which devices a job is placed on."""
    order: str = "fifo"
    """Which waiting job comes next."""
    planner: str = "default"
    """What should change; the default asks the order and the policy."""
    estimator: str = "auto"
    """What tells a job's need when its file does not; `auto` asks the best there are in turn."""
    recovery: str = "exclusive"
    """What becomes of a job that died of GPU out-of-memory."""
    collocation: Collocation = Collocation.AUTO
    """How jobs that do not say share a device: `auto`, `exclusive`, `timeslice` or `mps`. AUTO
    is MPS where it is enabled, else time-slicing. Never MIG: devices decide that."""
    device_ids: str = "uuid"
    """How jobs are told their devices: `uuid`, or `index` for programs that need it."""

    policies: RuleTables = field(default_factory=dict)
    orders: RuleTables = field(default_factory=dict)
    planners: RuleTables = field(default_factory=dict)
    estimators: RuleTables = field(default_factory=dict)
    recoveries: RuleTables = field(default_factory=dict)

    core: Mapping[str, float] = field(default_factory=dict)
    mps: MpsConfig = MpsConfig()
    readings: ReadingsConfig = ReadingsConfig()
    estimation: EstimationConfig = EstimationConfig()
    strangers: StrangersConfig = StrangersConfig()
    daemon: DaemonConfig = DaemonConfig()

    def to_table(self) -> dict[str, Any]:
        """The whole configuration as TOML knows it."""
        words = {"collocation": self.collocation.value, "mps": self.mps.to_table()}
        return {**asdict(self), **words, "strangers": self.strangers.to_table()}

    def with_set(self, setting: str) -> Config:
        """This configuration with one `KEY=VALUE` changed, as in `policies.magm.max_smact=0.9`.

        VALUE is read as TOML; what is no TOML value is text. Raises `BadConfig`.
        """
        source = f"--set {setting}"
        key, equals, value = setting.partition("=")
        words = [word.strip() for word in key.split(".")]
        if not equals or not all(words):
            raise BadConfig(f"{source}: write KEY=VALUE, as in policies.magm.max_smact=0.9")
        if any(0xD800 <= ord(c) <= 0xDFFF for c in setting):
            raise BadConfig(f"{source}: not UTF-8 text; type it in a UTF-8 terminal")
        whole = self.to_table()
        table = whole
        for depth, word in enumerate(words[:-1], start=1):
            table = table.setdefault(word, {})
            if not isinstance(table, dict):
                raise BadConfig(f"{source}: '{'.'.join(words[:depth])}' is one value, not a table")
        table[words[-1]] = _toml_value(value.strip())
        return parse_table(whole, source)


# ------------------------------------------------------------------ finding and reading


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Where a configuration is looked for (None: nowhere), and its text (None: no file)."""

    path: Path | None
    text: str | None


def config_path(environ: Mapping[str, str], system: bool) -> Path | None:
    """The file to read, which need not exist; None for a user without any home folder."""
    named = environ.get("RADRM_CONFIG")
    if named:
        return Path(named)
    if system:
        return Path("/etc/radrm/radrm.toml")
    base = environ.get("XDG_CONFIG_HOME", "")
    if base.startswith("/"):
        return Path(base, "radrm", "radrm.toml")
    home = environ.get("HOME", "")
    return Path(home, ".config", "radrm", "radrm.toml") if home.startswith("/") else None


def find_config(environ: Mapping[str, str], system: bool) -> ConfigFile:
    """The file in force, read and not yet checked. Raises `BadConfig` for one that cannot be."""
    path = config_path(environ, system)
    if path is None:
        return ConfigFile(None, None)
    try:
        return ConfigFile(path, read_config(path))
    except (FileNotFoundError, NotADirectoryError):
        if environ.get("RADRM_CONFIG"):
            raise BadConfig(
                f"{path}: no such file; correct RADRM_CONFIG, or unset it to use the defaults"
            ) from None
        return ConfigFile(path, None)


def read_config(path: Path) -> str:
    """A file's text. Raises `BadConfig`, but lets pass that there is none."""
    try:
        # Not waiting for a pipe that nobody writes to.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise BadConfig(f"{path}: larger than 1 MiB; no configuration is")
        return data.decode()
    except (FileNotFoundError, NotADirectoryError):
        raise
    except UnicodeDecodeError:
        raise BadConfig(f"{path}: not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read: {error.strerror}") from error


def load_config(environ: Mapping[str, str], system: bool) -> Config:
    """The configuration in force. Raises `BadConfig` for a file that cannot be used."""
    found = find_config(environ, system)
    return Config() if found.text is None else parse_config(found.text, str(found.path))


def parse_config(text: str, source_name: str) -> Config:
    """Read TOML text. `source_name` stands before every error. Raises `BadConfig`."""
    return _first_trouble(examine_config(text, source_name))


def examine_config(text: str, source_name: str) -> tuple[Config, list[str]]:
    """What of the text can be used, and one line on each thing that cannot."""
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise BadConfig(f"{source_name}: not TOML: nested too deeply") from None
    except ValueError as error:
        return Config(), [f"{source_name}: not TOML: {error}"]
    return _checked(table, source_name)


def parse_table(table: Table, source_name: str) -> Config:
    """A configuration from what `Config.to_table` gave. Raises `BadConfig`."""
    return _first_trouble(_checked(table, source_name))


def _toml_value(text: str) -> Any:
    try:
        read = tomllib.loads(f"value = {text}")
    except ValueError:
        return text
    return read["value"] if len(read) == 1 else text


# ------------------------------------------------------------------ checking


def contradictions(config: Config) -> list[str]:
    """Settings that are sound by themselves and do not go together."""
    found = []
    if config.collocation is Collocation.MPS and not config.mps.enabled:
        found.append(
            "collocation = 'mps' while mps.enabled is false: jobs would be time-sliced; "
            "set mps.enabled = true, or collocation = 'auto'"
        )
    if config.mps.set_compute_mode and config.core.get("mps_timeslice_others"):
        found.append(
            "mps.set_compute_mode = true while core.mps_timeslice_others is true: beside clients a "
            "GPU would take nobody else; set one of them to false"
        )
    if config.readings.smact == "gpm" and config.readings.source == "nvidia-smi":
        found.append(
            "readings.smact = 'gpm' while readings.source = 'nvidia-smi', which cannot read GPM; "
            "set readings.source = 'auto'"
        )
    if config.readings.smact == "utilization" and not config.core.get("use_coarse_smact"):
        found.append(
            "readings.smact = 'utilization' while core.use_coarse_smact is false: jobs would "
            "not share GPUs; set core.use_coarse_smact = true, or readings.smact = 'auto'"
        )
    if config.strangers.action == "drain" and config.core.get("yield_to_unmanaged") is False:
        found.append(
            "strangers.action = 'drain' while core.yield_to_unmanaged is false, which wins: "
            "strangers would only be counted; leave core.yield_to_unmanaged out"
        )
    return found


def _first_trouble(examined: tuple[Config, list[str]]) -> Config:
    config, troubles = examined
    if troubles:
        raise BadConfig(troubles[0])
    return config


@dataclass(frozen=True, slots=True)
class _Place:
    """A key of a source, and all troubles with that source so far."""

    source: str
    troubles: list[str]
    key: str = ""

    def __str__(self) -> str:
        return f"{self.source}: {self.key}"

    def at(self, key: str) -> _Place:
        return _Place(self.source, self.troubles, f"{self.key}.{key}" if self.key else key)


_Check = Callable[[Any, _Place], Any]
"""Gives back what can be used of a value. Raises `BadConfig` where nothing can be; a check of a
table notes what is wrong inside it, and gives back the rest."""


def _checked(table: Table, source: str) -> tuple[Config, list[str]]:
    place = _Place(source, [])
    return Config(**_known(table, _CHECKS, place)), place.troubles


def _known(table: Table, checks: Mapping[str, _Check], place: _Place) -> dict[str, Any]:
    """The values that pass the check of their key."""
    sound: dict[str, Any] = {}
    for key, value in table.items():
        here = place.at(key)
        try:
            if key not in checks:
                raise BadConfig(f"{here.source}: unknown key '{here.key}'; {_nearest(key, checks)}")
            sound[key] = checks[key](value, here)
        except BadConfig as error:
            here.troubles.append(str(error))
    return sound


def _every(check: _Check) -> _Check:
    """A check of tables: any key may stand there, and each value must pass."""

    def check_table(value: Any, place: _Place) -> dict[str, Any]:
        table = _table(value, place)
        return _known(table, dict.fromkeys(table, check), place)

    return check_table


def _nearest(word: str, known: Iterable[str]) -> str:
    names = list(known)
    found = difflib.get_close_matches(word, names, n=1)
    if found:
        return f"did you mean '{found[0]}'?"
    return f"known are: {', '.join(names)}" if names else "this table has no settings; remove it"


def _wrong(place: _Place, expected: str, value: object) -> BadConfig:
    return BadConfig(f"{place} must be {expected}, not {value!r}")


def _name(value: Any, place: _Place) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(place, 'a name in quotes, as in "magm"', value)
    return value


def _choice(*choices: str) -> Callable[[Any, _Place], str]:
    def check(value: Any, place: _Place) -> str:
        if value not in choices:
            hint = f"; {_nearest(value, choices)}" if isinstance(value, str) else ""
            raise BadConfig(f"{place} must be one of {', '.join(choices)}, not {value!r}{hint}")
        return str(value)

    return check


_collocation = _choice("auto", "exclusive", "timeslice", "mps")


def _table(value: Any, place: _Place) -> Table:
    if not isinstance(value, dict):
        raise _wrong(place, "a table of settings", value)
    return value


def _number(value: Any, place: _Place) -> float:
    """A number or a switch; which of the two it must be, the core's own settings say."""
    if not isinstance(value, (int, float)):
        raise _wrong(place, "a number", value)
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        raise BadConfig(f"{place} is too large a number") from None
    if not finite:
        raise _wrong(place, "a finite number", value)
    return value


def _switch(value: Any, place: _Place) -> bool:
    if not isinstance(value, bool):
        raise _wrong(place, "true or false", value)
    return value


def _mps(value: Any, place: _Place) -> MpsConfig:
    sound = _known(_table(value, place), _MPS_CHECKS, place)
    enabled = sound.pop("enabled", False)
    only = enabled if isinstance(enabled, tuple) else ()
    return MpsConfig(enabled=bool(enabled), only=only, **sound)


def _gpus(value: Any, place: _Place) -> bool | tuple[str, ...]:
    """A switch for all GPUs, or those that are meant."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, list) or not all(map(_is_gpu, value)):
        expected = 'true or false, or a list of GPU indices and UUIDs, as in [0, "GPU-1a2b3c4d"]'
        raise _wrong(place, expected, value)
    return tuple(str(word) for word in value)


def _is_gpu(word: Any) -> bool:
    if isinstance(word, int) and not isinstance(word, bool):
        return word >= 0
    return isinstance(word, str) and len(word) >= _SHORTEST_UUID and word.isprintable()


def _percentage(value: Any, place: _Place) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 100:
        raise _wrong(place, "a whole number from 1 to 100", value)
    return value


_SHORTEST_UUID = 8
_MPS_CHECKS: dict[str, _Check] = {
    "enabled": _gpus,
    "scope": _choice("gpu", "server"),
    "active_thread_percentage": _percentage,
    "set_compute_mode": _switch,
    "multiuser": _switch,
}


def _loopback_url(value: Any, place: _Place) -> str:
    """The daemon asks nobody but this machine how busy its GPUs are."""
    try:
        parts = urlsplit(value) if isinstance(value, str) else urlsplit("")
        host, _ = parts.hostname or "", parts.port
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local or parts.scheme != "http" or parts.username or not value.isprintable():
        expected = 'an http address of this machine, as in "http://127.0.0.1:9400/metrics"'
        raise _wrong(place, expected, value)
    return str(value)


_READINGS_CHECKS: dict[str, _Check] = {
    "source": _choice("auto", "nvml", "nvidia-smi"),
    "smact": _choice("auto", "gpm", "dcgm", "dcgm-exporter", "utilization"),
    "dcgm_exporter": _loopback_url,
}


def _readings(value: Any, place: _Place) -> ReadingsConfig:
    return ReadingsConfig(**_known(_table(value, place), _READINGS_CHECKS, place))


def _grace(value: Any, place: _Place) -> float:
    number = None if isinstance(value, bool) else _number(value, place)
    if number is None or not 0 <= number <= _LONGEST_GRACE_S:
        raise _wrong(place, "seconds from 0 to a year", value)
    return float(number)


def _names(value: Any, place: _Place) -> tuple[str, ...]:
    """Names of programs or users: words without a slash."""
    if not isinstance(value, list) or not all(map(_is_name, value)):
        raise _wrong(place, 'a list of names, as in ["ollama"]', value)
    return tuple(value)


def _is_name(word: Any) -> bool:
    return isinstance(word, str) and word.isprintable() and word != "" and "/" not in word


_LONGEST_GRACE_S = 365 * 86400
_STRANGERS_CHECKS: dict[str, _Check] = {
    "action": _choice("count", "warn", "drain", "signal"),
    "grace_s": _grace,
    "kill_grace_s": _grace,
    "spare": _names,
    "spare_users": _names,
}


def _strangers(value: Any, place: _Place) -> StrangersConfig:
    return StrangersConfig(**_known(_table(value, place), _STRANGERS_CHECKS, place))


def _between(low: float, high: float) -> Callable[[Any, _Place], float]:
    def check(value: Any, place: _Place) -> float:
        if isinstance(value, bool) or not low <= _number(value, place) <= high:
            raise _wrong(place, f"a number from {low:g} to {high:g}", value)
        return float(value)

    return check


def _whole(low: int, high: int) -> Callable[[Any, _Place], int]:
    def check(value: Any, place: _Place) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise _wrong(place, f"a whole number from {low} to {high}", value)
        return value

    return check


_ESTIMATION_CHECKS: dict[str, _Check] = {
    "time_limit_s": _between(0.1, 600),
    "trace": _switch,
    "probe": _switch,
    "trace_limit_s": _between(1, 3600),
    "trace_memory_mib": _whole(512, 1 << 24),
}


def _estimation(value: Any, place: _Place) -> EstimationConfig:
    return EstimationConfig(**_known(_table(value, place), _ESTIMATION_CHECKS, place))


def _daemon(value: Any, place: _Place) -> DaemonConfig:
    return DaemonConfig(**_known(_table(value, place), {}, place))


_rules = _every(_table)

_CHECKS: dict[str, _Check] = {
    "policy": _name,
    "order": _name,
    "planner": _name,
    "estimator": _name,
    "recovery": _name,
    "collocation": lambda value, place: Collocation(_collocation(value, place)),
    "device_ids": _choice("uuid", "index"),
    "policies": _rules,
    "orders": _rules,
    "planners": _rules,
    "estimators": _rules,
    "recoveries": _rules,
    "core": _every(_number),
    "mps": _mps,
    "readings": _readings,
    "estimation": _estimation,
    "strangers": _strangers,
    "daemon": _daemon,
}
