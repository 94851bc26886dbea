"""Find and read the configuration file, and change one setting.

RADRM_CONFIG                        if it is set; then the file must exist
/etc/radrm/radrm.toml               for the daemon of the whole server
$XDG_CONFIG_HOME/radrm/radrm.toml   for a user's own daemon
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from radrm.config.checks import parse_config, parse_table, toml_value
from radrm.config.shapes import Config
from radrm.config.values import in_short
from radrm.errors import BadConfig


def with_set(config: Config, setting: str) -> Config:
    """Return the configuration with one `KEY=VALUE` changed: `policies.sharing.max_smact=0.9`.

    VALUE is TOML; a value that is not TOML is text. Raises `BadConfig`.
    """
    source = f"--set {in_short(setting)}"
    key, equals, value = setting.partition("=")
    words = [word.strip() for word in key.split(".")]
    if not equals or not all(words):
        raise BadConfig(f"{source}: write KEY=VALUE, as in policies.sharing.max_smact=0.9")
    if any(0xD800 <= ord(c) <= 0xDFFF for c in setting):
        raise BadConfig(f"{source}: not UTF-8 text; type it in a UTF-8 terminal")
    whole = config.to_table()
    table = whole
    for depth, word in enumerate(words[:-1], start=1):
        table = table.setdefault(word, {})
        if not isinstance(table, dict):
            raise BadConfig(
                f"{source}: '{in_short('.'.join(words[:depth]))}' is one value, not a table"
            )
    table[words[-1]] = toml_value(value.strip())
    return parse_table(whole, source)


MAX_BYTES = 1 << 20


class ConfigFile(Struct, frozen=True):
    """The path of the configuration file (None: no path), and its text (None: no file)."""

    path: Path | None
    text: str | None


def config_path(environ: Mapping[str, str], system: bool) -> Path | None:
    """Return the file to read, which may be missing. None: a user without a home folder."""
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
    """Read the file without checking its text. Raises `BadConfig` if it cannot be read."""
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
    """Return a file's text.

    Raises `BadConfig`; for a missing file it raises FileNotFoundError or NotADirectoryError.
    """
    try:
        # O_NONBLOCK: opening a named pipe without a writer would block forever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise BadConfig(f"{path}: larger than 1 MiB, the most that is read; make it smaller")
        return data.decode("utf-8-sig")  # editors of Windows begin with a byte order mark
    except (FileNotFoundError, NotADirectoryError):
        raise
    except UnicodeDecodeError:
        raise BadConfig(f"{path}: not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read: {error.strerror}") from error


def load_config(environ: Mapping[str, str], system: bool) -> Config:
    """Return the configuration in force. Raises `BadConfig` for a file that cannot be used."""
    found = find_config(environ, system)
    return Config() if found.text is None else parse_config(found.text, str(found.path))
