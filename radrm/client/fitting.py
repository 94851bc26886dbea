"""What would make a job fit on a GPU: a smaller batch, or an option of its own program; by traces.

Nothing is guessed. A batch size is named only if the command with it was traced and fits. An option
is tried only if the text of the program names it, and shown with what its trace has shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from radrm.client.estimates import Asked, Traceable, answer, memory_of, traced
from radrm.config import Config
from radrm.host.estimation.asking import SCRIPT
from radrm.host.estimation.tracing import TraceRequest
from radrm.host.storage.sources import text_of
from radrm.jobfile.radfile import Program
from radrm.structs import replace
from radrm.tracer.command import batch_size, with_batch_size

MOST_TRACES = 4
"""Traces of smaller batches. Two show a line; the others correct it."""
MOST_CHANGES = 2
_EIGHTS = 8
"""From here on, batch sizes are multiples of this."""
_CAUTIOUS = 0.98
"""The first batch that is tried, as a part of what would fit if all memory grew with it."""
_NEARLY = 0.97
"""A batch that takes this part of the room is large enough: every trace takes seconds."""
_OPTIONS = (
    "--amp", "--bf16", "--fp16", "--mixed-precision", "--grad-checkpointing",
    "--gradient-checkpointing", "--gradient_checkpointing", "--activation-checkpointing",
    "--use-checkpoint",
)  # fmt: skip
"""Options by which programs use less memory, as they are most often called; the cheapest first."""

Memory = Callable[[int], float | None]
"""The upper bound (MiB) with a batch size; None: it cannot be traced."""


class Change(Struct, frozen=True):
    """The upper bound with one more option of the program."""

    option: str
    upper_mib: float


class Fit(Struct, frozen=True):
    """A job that does not fit on the largest GPU of the server, which has `room_mib`.

    `name`: the option with its batch size; None: it has none. `batch_size`: the largest with which
    it fits, and its upper bound; None: none was found.
    """

    room_mib: int
    name: str | None = None
    batch_size: int | None = None
    upper_mib: float | None = None
    changes: tuple[Change, ...] = ()


def fitted(asked: Asked, ways: Traceable, config: Config, say: Callable[[str], None]) -> Fit | None:
    """How a traced command would fit. None: it fits, or nothing is known.

    `say` is called with a line about each trace before it starts.
    """
    request, found = ways.command, memory_of(answer(asked, config, SCRIPT))
    room = asked.device_mib
    if request is None or found is None or room is None or found.value <= room:
        return None

    def with_command(changed: TraceRequest | None, what: str) -> float | None:
        if changed is None:
            return None
        say(what)
        fresh = replace(asked, job=replace(asked.job, trace=None))
        its = memory_of(answer(traced(fresh, changed, config), config, SCRIPT))
        return None if its is None else max(its.value, its.upper)

    command = request.command
    size = batch_size(command)
    fit = Fit(room)
    if size is not None:
        name = size[1].partition(" ")[0]

        def memory(other: int) -> float | None:
            return with_command(_with_size(request, other), f"{name} {other}")

        largest = largest_batch(size[0], max(found.value, found.upper), room, memory)
        fit = replace(fit, name=name)
        if largest is not None:
            fit = replace(fit, batch_size=largest[0], upper_mib=largest[1])
    changes = []
    for option in options_of(request)[:MOST_CHANGES]:
        upper_mib = with_command(_with_option(request, option), option)
        if upper_mib is not None and upper_mib < found.upper:
            changes.append(Change(option, upper_mib))
    return replace(fit, changes=tuple(changes))


def largest_batch(size: int, mib: float, room: float, memory: Memory) -> tuple[int, float] | None:
    """About the largest batch below `size` that fits into `room`, with its memory; None for none.

    With `size` it takes `mib`, which does not fit. Memory grows nearly in a line with the batch, so
    each trace gives the next batch to try. At most `MOST_TRACES` are made.
    """
    fits: tuple[int, float] | None = None
    beyond = size, mib
    guess = _CAUTIOUS * size * room / mib
    for _ in range(MOST_TRACES):
        tried = _rounded(guess)
        if tried >= beyond[0]:
            tried = _rounded(beyond[0] - 1)
        if tried <= (0 if fits is None else fits[0]):
            break
        its = memory(tried)
        if its is None:
            break
        known = fits or beyond
        if its <= room:
            fits = tried, its
            if its >= _NEARLY * room:
                break
        else:
            known, beyond = beyond, (tried, its)
        slope = (known[1] - its) / (known[0] - tried)
        if slope <= 0:
            break
        guess = tried + (room - its) / slope
    return fits


def _rounded(size: float) -> int:
    whole = int(size)
    return whole if whole < _EIGHTS else whole // _EIGHTS * _EIGHTS


def options_of(request: TraceRequest) -> list[str]:
    """The options that the program files of a command name, and the command does not use."""
    text = text_of(request.command.split(), request.cwd)
    return [
        option
        for option in _OPTIONS
        if re.search(rf"[\"']{option}[\"']", text) and option not in request.command
    ]


def _with_size(request: TraceRequest, size: int) -> TraceRequest | None:
    program = request.program
    if program is None:
        return None
    if program.script is not None:
        script = with_batch_size(program.script, size)
        if script is not None and script != program.script:
            return replace(request, program=program.but(script=script))
    words = _sized(program.words or (), size)
    if words is None:
        return None
    return replace(request, program=program.but(words=words))


def _sized(words: Sequence[str], size: int) -> tuple[str, ...] | None:
    """The words of a command with another batch size: `--bs=64`, or `--bs` and `64`."""
    found, changed = list(words), False
    for at, word in enumerate(words):
        pair = " ".join(words[at : at + 2]) if "=" not in word else word
        other = with_batch_size(pair, size)
        if other is None or other == pair:
            continue
        found[at : at + 1 + (" " in pair)] = other.split(" ")
        changed = True
    return tuple(found) if changed else None


def _with_option(request: TraceRequest, option: str) -> TraceRequest | None:
    """The command with one more option at its end; None for a script: where is not known."""
    program = request.program
    if program is None or program.script is not None:
        return None
    return replace(request, program=Program((*(program.words or ()), option)))
