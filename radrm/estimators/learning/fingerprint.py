"""A short text that is equal for two runs of the same job.

It covers the command, in one spelling and without options that cannot change the memory;
the program files that the command names; and all else that decides how much memory is used:
the model's summary, batch, optimizer, precision, GPUs, the folder, and the variables of the
job. The kind of GPU and the user are not part of it: they are stored beside it.

Two different jobs must never have one fingerprint: radrm would reserve the memory of the
one for the other. Two fingerprints for one job only cost an estimate by another estimator.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

MAX_WORDS = 10_000
VERSION = 2
"""Part of every fingerprint. Version 1 gave different models one fingerprint, so its stored
runs must not match."""

LENGTHS = frozenset({"epochs", "num-epochs", "n-epochs", "max-epochs", "num-train-epochs"})
"""Full names of options that decide the length of a training, but not its memory."""

# Full names of options with one value that cannot change the memory. If in doubt, an option is
# not here: `--name` chooses a model in some programs, `--momentum` adds optimizer state, and
# `--steps` can be the length of a backward pass.
# fmt: off
NEUTRAL = frozenset({
    # the seed of random numbers
    "seed", "random-seed", "manual-seed",
    *LENGTHS,
    # a factor of each update
    "lr", "learning-rate", "base-lr", "max-lr", "min-lr",
    # the place and the name of results and logs
    "output-dir", "out-dir", "save-dir", "log-dir", "logdir", "logging-dir", "log-file",
    "run-name", "wandb-project", "wandb-name", "wandb-run-name", "tensorboard-dir",
    # how often the program prints or logs
    "log-interval", "log-every", "logging-steps", "print-freq", "log-level",
})
# fmt: on
_SEPARATOR = "+"
_WITH_LENGTH = re.compile(r"[0-9a-f]{32}\+[0-9a-f]{8}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*|_[A-Za-z0-9_]+")


def fingerprint(
    command: str | Sequence[str],
    sources: str | None = None,
    summary: str | None = None,
    settings: Sequence[str] = (),
) -> str:
    """Return the fingerprint of a job: 32 characters.

    `command` is a script's text, or the words of a command. `sources` represents the content
    of the program files that it names. `settings` are all other texts that matter.
    """
    lines = list(_lines(command)) if isinstance(command, str) else [_plain(command)]
    parts = [VERSION, lines, sources or "", summary or "", sorted(settings)]
    data = json.dumps(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def with_length(mark: str, command: str | Sequence[str]) -> str:
    """Return a fingerprint that also tells how long the command trains; see `parts_of`."""
    words = command.split() if isinstance(command, str) else command
    lengths = []
    for at, word in enumerate(words[:MAX_WORDS]):
        name, equals, value = word.partition("=")
        if name.startswith("--") and name[2:].replace("_", "-") in LENGTHS:
            following = words[at + 1] if at + 1 < len(words) else ""
            lengths.append(f"{name.replace('_', '-')} {value if equals else following}")
    if not lengths:
        return mark
    data = json.dumps(sorted(lengths)).encode("utf-8", "surrogatepass")
    return f"{mark}{_SEPARATOR}{hashlib.blake2b(data, digest_size=4).hexdigest()}"


def parts_of(mark: str | None) -> tuple[str | None, str | None]:
    """Return the fingerprint of the program, and of the length of its training; None: not known.

    The memory and the SM activity of a run count for any length, its duration only for the same.
    """
    if mark is None or not _WITH_LENGTH.fullmatch(mark):
        return mark, None
    program, _, length = mark.partition(_SEPARATOR)
    return program, length


def variables_of(text: str, environment: Mapping[str, str]) -> list[str]:
    """Return `NAME=value`, sorted, of the variables whose names are whole words of a text.

    Most other variables of a shell differ from login to login and change nothing.
    """
    named = set(_NAME.findall(text)).intersection(environment)
    return sorted(f"{name}={environment[name]}" for name in named)


def _lines(script: str) -> Iterator[list[str]]:
    """Yield the words of the script's commands, without comments and empty lines."""
    room = MAX_WORDS
    for line in script.replace("\\\n", " ").splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if room <= 0 or len(text) > 10 * MAX_WORDS:
            yield [text]
            continue
        try:
            words = shlex.split(text)  # comments stay: shlex would find some inside words
        except ValueError:  # quotes that span lines
            words = text.split()
        room -= len(words)
        yield _plain(words)


def _plain(words: Sequence[str]) -> list[str]:
    """Return the words without neutral options, and with `--x=1` as `--x 1`.

    The order stays, since it can matter to a program.
    """
    kept: list[str] = []
    skip = False
    for word in words:
        if not word.startswith("-") or _is_number(word):
            if not skip:
                kept.append(word)
            skip = False
            continue
        name, equals, value = word.partition("=")
        neutral = name.startswith("--") and name[2:].replace("_", "-") in NEUTRAL
        skip = neutral and not equals
        if not neutral:
            kept += [name, value] if equals else [name]
    return kept


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-[0-9.]{1,32}", word) is not None
