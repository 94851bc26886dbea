"""What two runs of the same thing have in common: a short text, the same for both.

It is made of the command (what cannot change the memory left out, the rest in one
spelling), of the program files that the command names, and of what else decides how much
memory is used: the model's summary, batch, optimizer, precision, GPUs, the folder and the
variables given for the job. The kind of GPU and the user stand beside it, not in it.

Two different things must never look like one, since the one's memory would be reserved for
the other. That one thing looks like two costs no more than an estimate by another route.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

MAX_WORDS = 10_000
VERSION = 2
"""Stands in every fingerprint. The first version took different models for the same thing, so
that what it stored must match nothing."""

# Whole names of options that take one value, which cannot change what a GPU holds. When in
# doubt an option is not here: `--name` chooses a model in some programs, `--momentum` adds a
# state to the optimizer, `--steps` may be those that a loss is carried through.
# fmt: off
NEUTRAL = frozenset({
    # where random numbers begin
    "seed", "random-seed", "manual-seed",
    # for how long
    "epochs", "num-epochs", "n-epochs", "max-epochs", "num-train-epochs",
    # a factor of each update
    "lr", "learning-rate", "base-lr", "max-lr", "min-lr",
    # where results and logs go, and what they are called there
    "output-dir", "out-dir", "save-dir", "log-dir", "logdir", "logging-dir", "log-file",
    "run-name", "wandb-project", "wandb-name", "wandb-run-name", "tensorboard-dir",
    # how often something is printed or logged
    "log-interval", "log-every", "logging-steps", "print-freq", "log-level",
})
# fmt: on
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*|_[A-Za-z0-9_]+")


def fingerprint(
    command: str | Sequence[str],
    sources: str | None = None,
    summary: str | None = None,
    settings: Sequence[str] = (),
) -> str:
    """The fingerprint of a job: 32 characters.

    `command` is a script's text, or a bare command's words. `sources` stands for the
    content of the program files it names; `settings` are whatever else matters, as texts.
    """
    lines = list(_lines(command)) if isinstance(command, str) else [_plain(command)]
    parts = [VERSION, lines, sources or "", summary or "", sorted(settings)]
    data = json.dumps(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def variables_of(text: str, environment: Mapping[str, str]) -> list[str]:
    """`NAME=value` of those variables whose names stand in a text as whole words, sorted.

    Of all that a shell hands on most differs from login to login and changes nothing.
    """
    named = set(_NAME.findall(text)).intersection(environment)
    return sorted(f"{name}={environment[name]}" for name in named)


def _lines(script: str) -> Iterator[list[str]]:
    """The script's commands, comments and empty lines left out."""
    room = MAX_WORDS
    for line in script.replace("\\\n", " ").splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if room <= 0 or len(text) > 10 * MAX_WORDS:
            yield [text]
            continue
        try:
            words = shlex.split(text)  # with comments at its end: shlex sees some in a word
        except ValueError:  # quotes that go on over lines: a shell's matter
            words = text.split()
        room -= len(words)
        yield _plain(words)


def _plain(words: Sequence[str]) -> list[str]:
    """The words without options that cannot matter; `--x=1` is written `--x 1`.

    Options keep their order: what a program makes of it is its own affair.
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
