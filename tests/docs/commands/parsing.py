"""Commands of the documentation, read by the parsers of the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from radrm.cli.listing import ALIASES, commands, of_group, parameters_of, unknown
from radrm.cli.settings import RULE_TABLES, registry_of
from radrm.config import Config, with_set
from radrm.errors import RadrmError
from radrm.jobfile.arguments import parse
from radrm.jobfile.command_line import SUBMIT_FLAGS, check_edit, parse_run, parse_submit
from radrm.jobfile.radfile import wrap_command
from radrm.jobfile.slurm import read as read_slurm
from radrm.jobfile.slurm import translate
from radrm.wiring import registry

_LACKS = ("missing argument", "needs a value")
"""Mistakes of a command line that lacks something."""


def mistake(words: Sequence[str], spoken: bool = False) -> str | None:
    """What is wrong with the words behind `radrm`. None: nothing.

    A command that is only spoken of may lack arguments and have placeholders.
    """
    if "--help" in words:
        words, spoken = [word for word in words if word != "--help"], True
    try:
        _parse(_filled(words) if spoken else list(words), spoken)
    except RadrmError as error:
        lacks = spoken and any(each in str(error) for each in _LACKS)
        return None if lacks else str(error)
    return None


def _parse(words: list[str], spoken: bool) -> None:
    """Raises `RadrmError`."""
    if not words or words[0].startswith("-") or words[0] in ("help", "--help", "--version"):
        return
    name, rest = ALIASES.get(words[0], words[0]), words[1:]
    if name in ("submit", "run", "edit"):
        _of_the_option_table(name, rest, spoken)
        return
    if name not in commands():
        raise RadrmError(unknown(name))
    if group := of_group(name):
        if not rest or rest[0] == "--help":
            return  # a group, spoken of
        name, rest = f"{name} {rest[0]}", rest[1:]
        if name not in group:
            raise RadrmError(unknown(name))
    _check_values(parse(parameters_of(name), rest, name) or {})


def _of_the_option_table(name: str, words: list[str], spoken: bool) -> None:
    if name == "edit":
        given = parse(parameters_of(name), words, name)
        assert given is not None
        check_edit(given["options"] or {"priority": "1"} if spoken else given["options"], name)
    elif name == "run":
        command = [] if "--" in words or not spoken else ["--", "true"]
        parse_run([*words, *command])
    elif "--slurm" in words:
        options, _ = read_slurm([w for w in words if w != "--slurm"], "command line", SUBMIT_FLAGS)
        translate([o for o in options if o.name != "wrap"], "/", "here", SUBMIT_FLAGS)
    else:
        command = [] if "--" in words or not spoken else ["a", "b"]  # a value, and a file
        request = parse_submit([*words, *command])
        if request.command:
            wrap_command(request.command, request.raw_options)


def _check_values(given: dict[str, Any]) -> None:
    """Raises `RadrmError` for settings and rules that are not there."""
    config = Config()
    for setting in given.get("settings") or given.get("set") or ():
        if not setting.startswith(("policy.", "life.", "KEY=")):  # what only simulations have
            config = with_set(config, setting)
    for table, key in RULE_TABLES.items():
        value = given.get(key)
        names = [value] if isinstance(value, str) and value else value or []
        for name in re.split("[,+]", ",".join(names)) if names else ():
            known = {*registry(registry_of(table)), "all", "oracle", "guess", "none", "recorded"}
            if name not in known and not name.isupper():
                raise RadrmError(f"there is no {key} {name}")


# ------------------------------------------------------------------ placeholders

_MEANT = {
    "…": "mail",
    "COMMAND": "status",
    "N": "1",
    "X": "0.5",
    "PID": "4711",
    "[GPU]": "0",
    "WHAT": "user",
}


def _filled(words: Sequence[str]) -> list[str]:
    """The words with values in place of placeholders: `[--attempt N]`, `JOB...`, `--gpus=N`."""
    found = []
    for word in words:
        word = word.replace("[", "").replace("]", "").rstrip("….") if "[" in word else word
        word = word.strip("[]").removesuffix("...")
        name, equals, value = word.partition("=")
        word = f"{name}={_MEANT.get(value, value)}" if equals else _MEANT.get(word, word)
        if word:
            found.append(word)
    return found
