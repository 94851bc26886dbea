"""A rule that raises, or answers with the wrong shape, is set aside for a while and harms nobody.

Its answer is refused, what it was is said once, and the default goes on in its place. The
rule's pause grows with each failure; then it is asked again. What a rule does without end
inside one call (an endless loop) cannot be stopped from here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from radrm.core.records import Job, Refusal
from radrm.core.settings import CoreSettings
from radrm.core.state.pauses import Pauses
from radrm.core.units import show_seconds

RULE_ERRORS = (Exception, SystemExit)
"""What a rule may raise without ending the daemon."""
MOST_STATE_NODES = 200_000
MOST_STATE_CHARACTERS = 4 * 2**20
MOST_STATE_DEPTH = 100
_MOST_WORDS = 300
_MOST_INTEGER = 2**63

T = TypeVar("T")


class WrongAnswer(Exception):
    """What a rule answered does not have the shape that was agreed."""


class RuleFailed(Exception):
    """A rule raised `error`, or its answer was refused with it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(told(error))
        self.error = error


def told(error: BaseException) -> str:
    """An exception in one line of bounded length: its kind, its words, and the line of code."""
    try:
        words = " ".join(str(error).split())[:_MOST_WORDS]
    except Exception:  # it may be a rule's own, and say so with an error
        words = "its message cannot be read"
    words = words.encode("utf-8", "backslashreplace").decode()
    if isinstance(error, WrongAnswer):
        return words
    trace, where = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename.rpartition("/")[2]
        where = f" ({file}:{trace.tb_lineno})"
        trace = trace.tb_next
    return f"{type(error).__name__}{f': {words}' if words else ''}{where}"


def asked(call: Callable[[], T]) -> T:
    """What a rule answers. Raises `RuleFailed` for whatever it raises."""
    try:
        return call()
    except RULE_ERRORS as error:
        raise RuleFailed(error) from error


class Isolation:
    """Which rules have failed, and rest. `now_s` is the boot time of the step under way."""

    def __init__(self, settings: CoreSettings) -> None:
        self.now_s = 0.0
        self._pauses: Pauses[tuple[str, str]] = Pauses(settings.retry_s, settings.retry_most_s)
        self._instead: dict[tuple[str, str], str] = {}
        self._unsaid: list[str] = []
        self._again_s: list[float] = []

    def fail(self, kind: str, name: str, error: BaseException, instead: str) -> None:
        """Set a rule aside; several failures in one pause count as one. `instead` says, for
        people, what happens in its place."""
        key = (kind, str(name)[:_MOST_WORDS])
        if self._pauses.pausing(key, self.now_s) is not None:
            return
        before = self._pauses.last(key)
        failed = self._pauses.fail(key, self.now_s, told(error))
        self._instead[key] = instead
        self._again_s.append(failed.until_s)
        if failed.times == 1 or before is None or before.why != failed.why:
            self._unsaid.append(self._line(key, f"it is tried again, later each time: {instead}"))

    def rests(self, kind: str, name: str) -> bool:
        """Whether a rule is not to be asked at this moment."""
        return self._pauses.pausing((kind, name), self.now_s) is not None

    def _line(self, key: tuple[str, str], rest: str) -> str:
        failed = self._pauses.last(key)
        assert failed is not None
        return f"the {key[0]} {key[1]} failed ({failed.why}); {rest}"

    def troubles(self, now_s: float) -> tuple[str, ...]:
        """What is wrong with rules now, each in a line for people."""
        found = []
        for key, failed in self._pauses.all():
            left_s = failed.until_s - now_s
            if left_s > 0:
                rest = f"{self._instead[key]}; it is asked again in {show_seconds(left_s)}"
                found.append(self._line(key, rest))
        return tuple(found)

    def take_unsaid(self) -> tuple[str, ...]:
        """What the log does not have yet."""
        unsaid, self._unsaid = self._unsaid, []
        return tuple(unsaid)

    def take_again_s(self) -> Sequence[float]:
        """When rules that were set aside since the last call are to be asked again."""
        again, self._again_s = self._again_s, []
        return again


# ------------------------------------------------------------------ orders


class Placing:
    """An order's key, made fit for a sorted queue: any two can be compared.

    A job of which the order can tell none stands behind those of which it can, by submission.
    """

    def __init__(self, name: str, key: Callable[[Job], object], isolation: Isolation) -> None:
        self._name = name
        self._key = key
        self._isolation = isolation
        self.without: set[int] = set()
        """The jobs that the order has failed for."""

    def __call__(self, job: Job) -> tuple[Any, ...]:
        try:
            key = (0, _ranked(self._key(job)))
        except RULE_ERRORS as error:
            self.without.add(job.id)
            instead = "jobs that it fails for stand behind the others, by submission"
            self._isolation.fail("order", self._name, error, instead)
            return (1, *job.place)
        self.without.discard(job.id)
        return key


def _ranked(key: object) -> tuple[Any, ...]:
    if not isinstance(key, tuple):
        raise WrongAnswer(f"its key is of type {type(key).__name__}, not a tuple")
    return tuple(_rank(part) for part in key)


def _rank(part: object) -> tuple[Any, ...]:
    """Numbers before texts before tuples, and what is missing first of all."""
    if part is None:
        return (0,)
    if isinstance(part, (int, float)):
        if part != part:
            raise WrongAnswer("its key holds NaN, which is neither before nor behind anything")
        return 1, float(part) if isinstance(part, float) else int(part)
    if isinstance(part, str):
        return 2, str.__str__(part)
    if isinstance(part, tuple):
        return 3, _ranked(part)
    raise WrongAnswer(f"its key holds a {type(part).__name__}, not numbers and texts")


# ------------------------------------------------------------------ a rule's own memory


def plain(state: object) -> Any:
    """A copy of a rule's state of its own. Raises `WrongAnswer` for what JSON cannot hold as it
    is, or what is larger than may be saved at each step."""
    budget = [MOST_STATE_NODES, MOST_STATE_CHARACTERS]
    return _plain(state, budget, 0)


def _plain(value: object, budget: list[int], depth: int) -> Any:
    budget[0] -= 1
    if type(value) is str:
        budget[1] -= len(value)
    if budget[0] < 0 or budget[1] < 0 or depth > MOST_STATE_DEPTH:
        raise WrongAnswer(
            f"its state is too large: more than {MOST_STATE_NODES} values, "
            f"{MOST_STATE_CHARACTERS} characters or {MOST_STATE_DEPTH} levels"
        )
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        return value.encode("utf-8", "backslashreplace").decode()
    if type(value) is int and -_MOST_INTEGER <= value < _MOST_INTEGER:
        return value
    if type(value) is float and value - value == 0:
        return value
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return [_plain(each, budget, depth + 1) for each in value]
    if type(value) is dict and all(type(key) is str for key in value):
        return {
            _plain(key, budget, depth): _plain(each, budget, depth + 1)
            for key, each in value.items()
        }
    raise WrongAnswer(f"its state holds a {type(value).__name__} that JSON cannot hold as it is")


# ------------------------------------------------------------------ refusals


def are_refusals(found: object) -> bool:
    """Whether an explanation has the shape that was agreed."""
    return isinstance(found, (tuple, list)) and all(is_refusal(each) for each in found)


def is_refusal(found: object) -> bool:
    if type(found) is not Refusal:
        return False
    texts = type(found.rule) is str and type(found.message) is str
    numbers = all(
        number is None or isinstance(number, (int, float))
        for number in (found.needed, found.available)
    )
    return texts and numbers and (found.device is None or type(found.device) is str)
