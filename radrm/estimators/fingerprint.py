"""What two runs of the same thing have in common: a short text, the same for both.

It is made of the command (what cannot change the memory left out, the rest in one
spelling), of the program files that the command names, and of what else decides how much
memory is used: the model's summary, batch, optimizer, precision, GPUs and environment
given for the job. The kind of GPU and the user stand beside it, not in it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Sequence

MAX_WORDS = 10_000

# Names the field uses for what a run is called, where it writes, how long and how fast it
# learns. Parts of names: `--output_dir` and `--save-every` are neutral by one of them.
# fmt: off
NEUTRAL = frozenset({
    "seed", "lr", "epoch", "epochs", "steps", "iterations", "iters", "output", "out", "log",
    "logs", "logging", "logdir", "name", "tag", "wandb", "tensorboard", "tb", "verbose", "quiet",
    "save", "savedir", "rate", "momentum", "decay", "wd", "warmup", "patience", "gamma", "beta1",
    "beta2", "eps", "print", "project", "note", "comment", "run", "exp", "experiment", "trial",
})
# fmt: on
_PARTS = re.compile(r"[-_.]+")


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
    parts = [lines, sources or "", summary or "", sorted(settings)]
    data = json.dumps(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


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
            words = shlex.split(text, comments=True)
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
        skip = _neutral(name)
        if not skip:
            kept += [name, value] if equals else [name]
        elif equals:
            skip = False
    return kept


def _neutral(option: str) -> bool:
    parts = _PARTS.split(option.lstrip("-").lower())
    return option.startswith("--") and any(part in NEUTRAL for part in parts)


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-[0-9.]{1,32}", word) is not None
