"""A rule that raises, or answers with the wrong shape, rests; a default replaces it meanwhile.

Theory of operation
-------------------
Rules may be third parties' code. Each call goes through `call_rule`, and each answer through a
check of its shape (`core/planning/shapes.py`). If one fails, the answer is refused and logged
once, and a default decides in the rule's place. The rule rests, then it is called again. The
pause doubles from `CoreSettings.retry_s` up to `CoreSettings.retry_most_s`.

Invariants:
- `step` never raises because of a rule, and no record holds a wrong value of a rule.
- Proposals that were carried out before the failure stay: each one was checked.
- Several failures within one pause count as one.

What may interleave: a planner's fallback is called in the same step. The host may interrupt a
rule that takes too long: it calls `interrupt` (`core/planning/interrupt.py`) from a signal
handler, which raises `TooSlow` inside the rule's own code and nowhere else.

What a restart sees: failures are not stored, so every rule is called again. A planner's own
state is stored as it was before the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from msgspec import Struct

from radrm.core.settings import CoreSettings
from radrm.core.state.pauses import Failed, Pauses
from radrm.core.units import show_seconds
from radrm.errors import message_of, one_line

_LONGEST_NAME = 300

P = ParamSpec("P")
T = TypeVar("T")


class WrongAnswer(Exception):
    """A rule's answer has the wrong shape, or there is none. The words say all."""


class TooSlow(BaseException):
    """A rule takes too long. No `Exception`, so that a rule does not catch it by mistake."""


RULE_ERRORS = (Exception, SystemExit, TooSlow)
"""The exceptions of a rule that do not end the daemon."""


class RuleFailed(Exception):
    """A rule raised `error`, or its answer was refused with it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error_line(error))
        self.error = error


def error_line(error: BaseException) -> str:
    """Return an exception as one short line. The core's own say all by themselves."""
    own = isinstance(error, (WrongAnswer, TooSlow))
    return message_of(error) if own else one_line(error)


def call_rule(call: Callable[P, T], *args: P.args, **words: P.kwargs) -> T:
    """Return a rule's answer. Raises `RuleFailed` for every exception of the rule."""
    try:
        return call(*args, **words)
    except RULE_ERRORS as error:
        raise RuleFailed(error) from error


class Resting(Struct, frozen=True):
    """A rule that failed, as plain data."""

    kind: str
    name: str
    failed: Failed
    meanwhile: str


class Isolation:
    """The rules that rest after a failure. `now_s`: boot time of the current step."""

    def __init__(self, settings: CoreSettings) -> None:
        self.now_s = 0.0
        self._pauses: Pauses[tuple[str, str]] = Pauses(settings.retry_s, settings.retry_most_s)
        self._failed = False
        """True once a rule has failed. Until then nothing need be looked up."""
        self._meanwhile: dict[tuple[str, str], str] = {}
        self._new_lines: list[str] = []
        self._retry_times: list[float] = []

    def fail(self, kind: str, name: str, error: BaseException, meanwhile: str) -> None:
        """Let a rule rest. `meanwhile` says, for users, what happens in its place."""
        key = (kind, str(name)[:_LONGEST_NAME])
        if self._pauses.pausing(key, self.now_s) is not None:
            return  # several failures within one pause count as one
        self._failed, before = True, self._pauses.last(key)
        failed = self._pauses.fail(key, self.now_s, error_line(error))
        self._meanwhile[key] = meanwhile
        self._retry_times.append(failed.until_s)
        if failed.times == 1 or before is None or before.why != failed.why:
            self._new_lines.append(
                self._line(key, f"it is tried again after growing pauses; until then {meanwhile}")
            )

    def rests(self, kind: str, name: str) -> bool:
        """Return whether a rule rests now."""
        return self._failed and self._pauses.pausing((kind, name), self.now_s) is not None

    def _line(self, key: tuple[str, str], rest: str) -> str:
        failed = self._pauses.last(key)
        assert failed is not None
        return f"the {key[0]} {key[1]} failed ({failed.why}); {rest}"

    def errors(self, now_s: float) -> tuple[str, ...]:
        """Return one line for each rule that rests now."""
        found = []
        for key, failed in self._pauses.all():
            left_s = failed.until_s - now_s
            if left_s > 0:
                rest = f"{self._meanwhile[key]}; it is tried again in {show_seconds(left_s)}"
                found.append(self._line(key, rest))
        return tuple(found)

    def take_log_lines(self) -> tuple[str, ...]:
        """Return the lines that are not in the log yet."""
        unsaid, self._new_lines = self._new_lines, []
        return tuple(unsaid)

    def take_retry_times(self) -> Sequence[float]:
        """Return when the rules that failed since the last call end their rest."""
        again, self._retry_times = self._retry_times, []
        return again

    # ------------------------------------------------------------- for another process

    def data(self) -> tuple[Resting, ...]:
        """Return the rules that failed, as plain data."""
        known = self._pauses.all() if self._failed else ()
        return tuple(Resting(*key, failed, self._meanwhile[key]) for key, failed in known)

    def recall(self, data: Sequence[Resting]) -> None:
        """Take over what `data` says."""
        self._failed = bool(data)
        for each in data:
            key = (each.kind, each.name)
            self._pauses.recall(key, each.failed)
            self._meanwhile[key] = each.meanwhile
