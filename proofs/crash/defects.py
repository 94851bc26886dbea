"""Defects that the matrix must find: each one breaks a rule of the way of a job.

    python -m proofs.crash --defect NAME

ends with 1, or the matrix is blind. A defect is put into the watched processes, never into a file.
A runner can import only what runners import, so the daemon's imports stand in the functions.
"""

from __future__ import annotations

import os

from proofs.crash.watcher import DEFECT
from radrm.host.attempts import folder


def _everyone_wins_the_claim() -> None:
    take = folder.Claim.take

    def takes(where: str, by: str, who: object) -> bool:
        path = os.path.join(where, folder.CLAIM)
        if os.path.exists(path):
            os.unlink(path)
        return take(where, by, who)

    folder.Claim.take = staticmethod(takes)


def _acts_before_it_saves() -> None:
    from radrm.daemon.decisions import Decisions, Unsaved
    from radrm.structs import replace

    save = Decisions._save

    def acts_first(self: Decisions, waiting: Unsaved) -> bool:
        for decision in waiting.decisions:
            for action in decision.actions:
                self._events += self.carry_out(action)
        waiting.decisions = [replace(each, actions=()) for each in waiting.decisions]
        return save(self, waiting)

    Decisions._save = acts_first


def _removes_envelopes_before_it_saves() -> None:
    from radrm.daemon.intake.scan import Scan

    save = Scan._save

    def removes_first(self: Scan) -> None:
        for arrival in self._held.done:
            self._arrivals.remove(arrival)
        save(self)

    Scan._save = removes_first


def _takes_a_launch_of_an_earlier_boot_for_void() -> None:
    from radrm.core.records import Instant
    from radrm.host.clock import Clock

    def always(self: Clock, at: Instant) -> bool:
        return True

    Clock.is_of_this_boot = always


def _leaves_the_tree_of_a_killed_runner() -> None:
    from radrm.host.attempts.live import Live

    def kills_nothing(self: Live) -> list[int]:
        return []

    Live.kill_remains = kills_nothing


DEFECTS = {
    "claim": _everyone_wins_the_claim,
    "act-first": _acts_before_it_saves,
    "remove-first": _removes_envelopes_before_it_saves,
    "any-boot": _takes_a_launch_of_an_earlier_boot_for_void,
    "no-kill": _leaves_the_tree_of_a_killed_runner,
}
_OF_RUNNERS = ("claim",)


def put_in(place: str, process: str) -> None:
    """Put the defect that a file of the home names into this process, a daemon or a runner."""
    with open(os.path.join(place, DEFECT)) as file:
        name = file.read()
    if process == "daemon" or name in _OF_RUNNERS:
        DEFECTS[name]()
