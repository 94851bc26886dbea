"""The checks of `radrm doctor` run apart: one that breaks or hangs harms no other."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from radrm.host.health.checks import configuration
from radrm.host.health.finding import Check, Finding, ok, run_checks
from radrm.host.service.ownership import Ownership
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


def test_a_configuration_of_root_that_others_can_change(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "radrm.toml"
    file.write_text('goal = "sharing"\n')

    def found(mode: int, system: bool = True) -> Finding:
        file.chmod(mode)
        mine = Ownership(frozenset({0, os.getuid()}))
        environ = {"RADRM_CONFIG": str(file)}
        return configuration(environ, system, lambda text, source: [], ownership=mine)

    judged(found(0o644), "ok")
    judged(found(0o666, system=False), "ok")
    judged(found(0o666), "warn", str(file))
