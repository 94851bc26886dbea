"""`radrm config`: show the settings and their source, and check them."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import date, time
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from radrm.cli.parameters import JSON, TEXTS, WORD, Parameter
from radrm.cli.settings import filled, find_errors, meant_by_auto
from radrm.cli.toml_text import toml_text, toml_value
from radrm.client.connection import Client
from radrm.client.text import print_json, print_text, say
from radrm.config import (
    Config,
    ConfigFile,
    find_config,
    of_goal,
    parse_config,
    read_config,
    with_set,
)
from radrm.errors import BadConfig, Refused, Unreachable, plain
from radrm.host.storage.paths import system_mode

Keys = tuple[str, ...]
_START_S = 300.0
"""How long a daemon may take to start anew."""
_PAUSE_S = 0.1


# ------------------------------------------------------------------ show


SHOW_PARAMETERS = (
    Parameter("settings", TEXTS, "Change this setting first.", "KEY=VALUE", ("--set",)),
    JSON,
)


def show(settings: list[str], as_json: bool) -> None:
    """Show the configuration of a daemon of yours, defaults included.

    What it prints is a configuration file.

    \b
    Examples:
      radrm config show
      radrm config show --set policy=lug
    """
    file = _in_force()
    given = Config() if file.text is None else parse_config(file.text, str(file.path))
    for setting in settings:
        given = with_set(given, setting)
    if as_json:
        print_json(config_document(given, file))
    else:
        print_text(config_text(given, file))


def config_text(given: Config, file: ConfigFile) -> str:
    """The whole configuration as TOML; defaults are marked."""
    remarks = {keys: _whose_default(given, keys) for keys in _defaults(given)}
    for key, value in meant_by_auto(given).items():
        by_default = "default, " if (key,) in remarks else ""
        remarks[key,] = f"{by_default}now {toml_value(value)}"
    if given.slots.length_s > 0:
        remarks["slots", "length_s"] = "the planner slots runs behind those above"
    table = {k: v for k, v in filled(given).to_table().items() if v != {}}
    head = f"# What a daemon started now would use: {plain(_where(file))}"
    return f"{head}\n{toml_text(table, remarks)}"


def _whose_default(given: Config, keys: Keys) -> str:
    """As `default of goal "sharing"`, for a setting of a rule that the goal changes."""
    goals = len(keys) > 2 and keys[2] in of_goal(given, *keys[:2])
    return f"default of goal {toml_value(given.goal)}" if goals else "default"


def config_document(given: Config, file: ConfigFile) -> dict[str, Any]:
    """The same for programs. Values that JSON cannot hold are strings with their TOML text."""
    return {
        "file": None if file.path is None else str(file.path),
        "found": file.text is not None,
        "config": json.loads(json.dumps(_for_json(filled(given).to_table()))),
        "auto": meant_by_auto(given),
        "defaults": [".".join(keys) for keys in _defaults(given)],
    }


def _defaults(given: Config) -> list[Keys]:
    """The keys of values that the user did not set.

    A top-level value that the user set to its default counts as not set; the effect is the same.
    """
    default, before, whole = Config().to_table(), given.to_table(), filled(given).to_table()
    found: list[Keys] = []
    for keys, value in _values(whole):
        own = dict(_values(before)).get(keys)
        if own is None or (keys[0] not in ("core", *_RULES) and value == _at(default, keys)):
            found.append(keys)
    return found


_RULES = ("policies", "orders", "planners", "estimators", "recoveries")


def _values(table: dict[str, Any], path: Keys = ()) -> list[tuple[Keys, Any]]:
    found: list[tuple[Keys, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            found += _values(value, (*path, key))
        else:
            found.append(((*path, key), value))
    return found


def _at(table: Any, keys: Keys) -> Any:
    """The default value at these keys; None for a key that only the site has set."""
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table


def _for_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _for_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_for_json(inner) for inner in value]
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, float) and value - value != 0:  # not finite
        return repr(value)
    return value


# ------------------------------------------------------------------ check


CHECK_PARAMETERS = (
    Parameter("file", WORD, "A configuration file; by default the one in force.", "FILE"),
    JSON,
)


def check(file: str, as_json: bool) -> int:
    """List the errors of a configuration.

    These are the checks of a daemon at its start. The exit code is 1 if there is any error.

    \b
    Examples:
      radrm config check
      radrm config check new.toml
    """
    try:
        found = _named(Path(file)) if file else _in_force()
        text, source = found.text, str(found.path)
        errors = [] if text is None else find_errors(text, source)
    except BadConfig as error:
        found, errors = ConfigFile(Path(file) if file else None, None), [str(error)]
    if as_json:
        path = None if found.path is None else str(found.path)
        print_json({"file": path, "found": found.text is not None, "errors": errors})
    elif errors:
        say(*errors)
    else:
        say(f"{found.path}: fine" if found.text is not None else _where(found))
    return 1 if errors else 0


def _named(path: Path) -> ConfigFile:
    try:
        return ConfigFile(path, read_config(path))
    except (FileNotFoundError, NotADirectoryError):
        raise BadConfig(f"{path}: no such file; name an existing file") from None


def _in_force() -> ConfigFile:
    return find_config(os.environ, system_mode(os.environ, os.getuid()))


def _where(file: ConfigFile) -> str:
    if file.text is not None:
        return str(file.path)
    if file.path is None:
        return "no configuration file: you have no home folder to keep one in; defaults are used"
    return f"no configuration file; it would be {file.path}; defaults are used"


# ------------------------------------------------------------------ reload


RELOAD_PARAMETERS = ()


def reload() -> None:
    """Start the running daemon anew with its configuration as it is now. Jobs run on.

    A file with a mistake changes nothing: the mistake is one line, and the old configuration stays
    in force. `kill -HUP` and `systemctl reload radrmd` do the same.
    """
    with Client() as client:
        before = client.ask("ping")["started_at"]
        with suppress(Unreachable):  # it may be gone before its answer
            client.ask("reload")
        until_s = monotonic() + _START_S
        while _started_at(client) in (None, before):
            if monotonic() > until_s:
                raise Refused(
                    f"the daemon has not come back within {_START_S:.0f} s; see its log (radrm "
                    "doctor)"
                )
            sleep(_PAUSE_S)
    say("The daemon has started anew with its configuration; jobs run on.")


def _started_at(client: Client) -> float | None:
    """When the daemon that answers now has started; None while none answers."""
    try:
        started: float = client.ask("ping")["started_at"]
    except Unreachable:
        return None
    return started
