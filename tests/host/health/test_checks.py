"""The checks of `radrm doctor` run apart: one that breaks or hangs harms no other."""

from __future__ import annotations

import threading

from radrm.host.health.finding import Check, Finding, ok, run_checks
from tests.host.health.judging import judged


def test_a_check_that_breaks_is_a_warning_about_itself() -> None:
    def broken() -> Finding:
        raise KeyError("nonsense")

    first, second = run_checks([Check("a", broken), Check("b", lambda: ok("b", "fine"))])
    judged(first, "warn", "KeyError", "nonsense")
    judged(second, "ok")


def test_a_check_that_hangs_takes_no_other_along() -> None:
    release = threading.Event()

    def stuck() -> Finding:
        release.wait()
        return ok("a", "late")

    first, second = run_checks([Check("a", stuck, 0.01), Check("b", lambda: ok("b", "fine"))])
    release.set()
    judged(first, "warn", "no answer")
    judged(second, "ok")
