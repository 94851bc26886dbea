"""Judge one input of one target: what a parser may do, and what is a finding.

A parser may return a value, or raise an error of its own whose message is one printable line of at
most `LONGEST_MESSAGE` characters. It has limited CPU time and memory, whatever the input.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import FrameType
from typing import Any

from proofs.fuzz.mutations import Mutator, as_bytes
from radrm.errors import RadrmError, one_line

LONGEST_MESSAGE = 500
MOST_CPU_S = 2.0
"""CPU seconds of one input, whatever its length. Most need less than a millisecond."""
HANG_S = 20.0
"""CPU seconds after which an input is stopped: it hangs."""
WAIT_S = 600.0
"""Real seconds after which it is stopped, too: it waits for something."""


@dataclass(frozen=True)
class Target:
    """One parser. To fuzz another one, make another of these.

    - `examples`: valid inputs. A `str` is changed as text, a tuple as the words of a command line,
      a dict or list as JSON; the last is passed to `call` as JSON text.
    - `call`: uses the parser as radrm does. It gets a `str`, with `as_bytes` the same as bytes, or
      a list of words.
    - `allowed`: the errors that the parser may raise.
    - `part`: how many inputs it gets for each input of a parser: less than one for what is slow
      and more than a parser, such as a store.
    - `most`: characters of an input at most: of a parser with a limit, some more than that.
    """

    name: str
    examples: Sequence[Any]
    call: Callable[[Any], object]
    allowed: tuple[type[Exception], ...] = (RadrmError,)
    bytes: bool = False
    most: int = 1 << 17
    part: float = 1.0

    def inputs(self, seed: str, most: int | None = None) -> Iterator[Any]:
        """Yield hostile inputs without end, the same ones for the same seed."""
        mutator = Mutator(Random(f"{self.name} {seed}"), self.examples, most or self.most)
        while True:
            yield self.prepared(mutator.input())

    def prepared(self, given: Any) -> Any:
        """Return an input as `call` takes it."""
        return as_bytes(given) if self.bytes and isinstance(given, str) else given


@dataclass(frozen=True)
class Finding:
    """What a target did wrong. `kind` is the same for inputs that show the same defect."""

    target: str
    kind: str
    what: str
    given: Any = field(repr=False)


class _Hang(BaseException):
    """No `Exception`, so that no parser takes it for one of its input's."""


def judge(target: Target, given: Any) -> Finding | bool:
    """Return what is wrong with how a target takes one input.

    If nothing is: whether it took the input for a valid one.
    """
    began_s, valid = time.process_time(), False
    wrong: tuple[str, str] | None = None
    try:
        target.call(given)
        valid = True
    except target.allowed as error:
        why = _why_bad(str(error))
        if why is not None:
            wrong = f"message of {type(error).__name__}: {why}", repr(str(error))[:400]
    except _Hang as hang:
        limits = f"more than {HANG_S:g} s of CPU time or {WAIT_S:g} s"
        wrong = "hang", f"it takes {limits}, in {_place(hang)}"
    except (Exception, RecursionError) as error:
        wrong = f"{type(error).__name__} in {_place(error)}", one_line(error)
    used_s = time.process_time() - began_s
    if wrong is None and used_s > MOST_CPU_S:
        wrong = "slow", f"{used_s:.1f} s of CPU time for {_length(given)} characters"
    return Finding(target.name, *wrong, given) if wrong is not None else valid


@contextmanager
def hangs_end() -> Iterator[Callable[[], None]]:
    """Stop what hangs: within the block each call of what it yields begins the time of an input."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Hang

    def begin() -> None:
        signal.setitimer(signal.ITIMER_PROF, HANG_S)
        signal.setitimer(signal.ITIMER_REAL, WAIT_S)

    before = [(each, signal.signal(each, stop)) for each in (signal.SIGPROF, signal.SIGALRM)]
    try:
        yield begin
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before:
            signal.signal(number, handler)


def _why_bad(message: str) -> str | None:
    """Return why a message is not one for a user; None if it is."""
    if not message.strip():
        return "it is empty"
    if len(message.splitlines()) > 1:
        return "it has several lines"
    if not message.isprintable():
        return "it has characters that are not printable"
    return "it is too long" if len(message) > LONGEST_MESSAGE else None


def _place(error: BaseException) -> str:
    """Return the last line of radrm's code that an error went through."""
    trace, found = error.__traceback__, "?"
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "/radrm/" in name:
            found = f"{name.rpartition('/radrm/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _length(given: Any) -> int:
    return len(given) if isinstance(given, (str, bytes)) else sum(map(len, given))
