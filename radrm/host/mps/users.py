"""Whether clients of several users may be on one MPS server at a time: only where that was seen.

A control daemon can be told so (`mps.multiuser`), as root. Old ones refuse the option, others
accept it and do it all the same one user after the other. What shows it is a server with a
client that is not root's: the server is root's, or it is that user's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from radrm.host.attempts.processes import Identity
from radrm.host.mps.control import MULTIUSER, PROGRAM, Control, Server

log = logging.getLogger("radrm")


class Users:
    """Of one control daemon's servers. `name` is what people call it; `said` is what need not
    be said of one GPU after the other."""

    def __init__(self, name: str, control: Control, said: set[str]) -> None:
        self.only_one_why: str | None = None
        """Why only one user at a time, although several are wanted."""
        self._name = name
        self._control = control
        self._said = said
        self._seen: tuple[Identity, bool] | None = None
        """A control daemon, and whether its servers were seen to take several users."""
        self._started: tuple[Identity, bool] | None = None
        """One that was started here, and whether it could be told to."""

    def started(self, who: Identity) -> None:
        self._started = (who, self._control.asked_for_several())

    def were_others_meant(self, who: Identity) -> bool:
        """Whether an earlier daemon has told it otherwise than it should be told now."""
        if self._started is not None and self._started[0] == who:
            return False
        return self._control.asked_for_several() is not self._control.multiuser

    def several(self, who: Identity, servers: Iterable[Server]) -> bool:
        """Whether several users may be on it: once that was seen, for as long as it lives."""
        if not self._control.multiuser:
            return False
        if self._seen is None or self._seen[0] != who:
            found = next((s.multiuser for s in servers if s.multiuser is not None), None)
            if self._started == (who, False):
                found = False
                self.only_one(f"{PROGRAM} does not know {MULTIUSER[0]} here")
            elif found is False:
                self.only_one("its MPS server takes one user at a time all the same")
            if found is None:
                return False
            self._seen = (who, found)
            if found:
                self.only_one_why = None
                log.info("MPS of %s takes jobs of several users at a time", self._name)
        return self._seen[1]

    def only_one(self, why: str) -> None:
        """Several users are wanted and cannot be had: say so, once for all GPUs."""
        self.only_one_why = f"mps.multiuser has no effect: {why}"
        if why not in self._said:
            self._said.add(why)
            log.warning(
                "mps.multiuser has no effect: %s (%s); users take turns on a GPU's MPS server",
                *(why, self._name),
            )
