"""The configuration: TOML text to a checked `Config`, and where that text lies.

    RADRM_CONFIG                        when set; it must be there then
    /etc/radrm/radrm.toml               for the daemon of the whole server
    $XDG_CONFIG_HOME/radrm/radrm.toml   for a user's own

Words are checked here: keys, types, choices. Whether a rule of some name exists,
and which settings it takes, is for the rule and for `wiring` to say.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from radrm.core.words import Collocation
from radrm.errors import BadConfig

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

Table = Mapping[str, Any]
RuleTables = Mapping[str, Table]
"""A rule's settings by the rule's name."""


@dataclass(frozen=True, slots=True)
class MpsConfig:
    enabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a site or a user may choose. Every field has a default that works."""

    policy: str = "magm"
    order: str = "fifo"
    planner: str = "default"
    estimator: str = "auto"
    recovery: str = "exclusive"
    collocation: Collocation = Collocation.AUTO
    """AUTO is MPS where it is enabled, else time-slicing. Never MIG: devices decide that."""
    device_ids: str = "uuid"
    """How jobs are told their devices: `uuid`, or `index` for programs that need it."""

    policies: RuleTables = field(default_factory=dict)
    orders: RuleTables = field(default_factory=dict)
    planners: RuleTables = field(default_factory=dict)
    estimators: RuleTables = field(default_factory=dict)
    recoveries: RuleTables = field(default_factory=dict)

    core: Mapping[str, float] = field(default_factory=dict)
    mps: MpsConfig = MpsConfig()
    daemon: Table = field(default_factory=dict)

    def to_table(self) -> dict[str, Any]:
        """The whole configuration as TOML knows it."""
        return {**asdict(self), "collocation": self.collocation.value}

    def with_set(self, setting: str) -> Config:
        """This configuration with one `KEY=VALUE` changed, as in `policies.magm.max_smact=0.9`.

        VALUE is read as TOML; what is no TOML value is text. Raises `BadConfig`.
        """
        source = f"--set {setting}"
        key, equals, value = setting.partition("=")
        words = [word.strip() for word in key.split(".")]
        if not equals or not all(words):
            raise BadConfig(f"{source}: write KEY=VALUE, as in policies.magm.max_smact=0.9")
        whole = self.to_table()
        table = whole
        for depth, word in enumerate(words[:-1], start=1):
            table = table.setdefault(word, {})
            if not isinstance(table, dict):
                raise BadConfig(f"{source}: '{'.'.join(words[:depth])}' is one value, not a table")
        table[words[-1]] = _toml_value(value.strip())
        return _checked(whole, source)


# ------------------------------------------------------------------ finding and reading


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


def load_config(environ: Mapping[str, str], system: bool) -> Config:
    """The configuration in force. Raises `BadConfig` for a file that cannot be used."""
    path = config_path(environ, system)
    if path is None:
        return Config()
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if environ.get("RADRM_CONFIG"):
            raise BadConfig(
                f"{path}: no such file; correct RADRM_CONFIG, or unset it to use the defaults"
            ) from None
        return Config()
    except UnicodeDecodeError:
        raise BadConfig(f"{path}: not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read: {error.strerror}") from error
    return parse_config(text, str(path))


def parse_config(text: str, source_name: str) -> Config:
    """Read TOML text. `source_name` stands before every error. Raises `BadConfig`."""
    try:
        table = tomllib.loads(text)
    except ValueError as error:
        raise BadConfig(f"{source_name}: not TOML: {error}") from None
    return _checked(table, source_name)


def _toml_value(text: str) -> Any:
    try:
        read = tomllib.loads(f"value = {text}")
    except ValueError:
        return text
    return read["value"] if len(read) == 1 else text


# ------------------------------------------------------------------ checking


def _checked(table: Table, source: str) -> Config:
    _only_known(table, _CHECKS, source, "")
    return Config(**{key: _CHECKS[key](value, f"{source}: {key}") for key, value in table.items()})


def _only_known(table: Table, known: Iterable[str], source: str, prefix: str) -> None:
    for key in table:
        if key not in known:
            raise BadConfig(f"{source}: unknown key '{prefix}{key}'; {_nearest(key, known)}")


def _nearest(word: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{found[0]}'?" if found else f"known are: {', '.join(known)}"


def _wrong(at: str, expected: str, value: object) -> BadConfig:
    return BadConfig(f"{at} must be {expected}, not {value!r}")


def _name(value: Any, at: str) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(at, 'a name in quotes, as in "magm"', value)
    return value


def _choice(*choices: str) -> Callable[[Any, str], str]:
    def check(value: Any, at: str) -> str:
        if value not in choices:
            hint = f"; {_nearest(value, choices)}" if isinstance(value, str) else ""
            raise BadConfig(f"{at} must be one of {', '.join(choices)}, not {value!r}{hint}")
        return str(value)

    return check


_collocation = _choice("auto", "exclusive", "timeslice", "mps")


def _table(value: Any, at: str) -> Table:
    if not isinstance(value, dict):
        raise _wrong(at, "a table of settings", value)
    return value


def _rules(value: Any, at: str) -> RuleTables:
    return {name: _table(settings, f"{at}.{name}") for name, settings in _table(value, at).items()}


def _numbers(value: Any, at: str) -> Mapping[str, float]:
    """Numbers and switches; which of the two each is, the core's own settings say."""
    for key, number in _table(value, at).items():
        if not isinstance(number, (int, float)):
            raise _wrong(f"{at}.{key}", "a number", number)
        if not math.isfinite(number):
            raise _wrong(f"{at}.{key}", "a finite number", number)
    return dict(value)


def _mps(value: Any, at: str) -> MpsConfig:
    source = at.removesuffix(": mps")
    _only_known(_table(value, at), MpsConfig.__dataclass_fields__, source, "mps.")
    enabled = value.get("enabled", False)
    if not isinstance(enabled, bool):
        raise _wrong(f"{at}.enabled", "true or false", enabled)
    return MpsConfig(enabled)


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "policy": _name,
    "order": _name,
    "planner": _name,
    "estimator": _name,
    "recovery": _name,
    "collocation": lambda value, at: Collocation(_collocation(value, at)),
    "device_ids": _choice("uuid", "index"),
    "policies": _rules,
    "orders": _rules,
    "planners": _rules,
    "estimators": _rules,
    "recoveries": _rules,
    "core": _numbers,
    "mps": _mps,
    "daemon": _table,
}
