"""Change one setting, for `--set KEY=VALUE`."""

from __future__ import annotations

from radrm.config.checks import parse_table, toml_value
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
