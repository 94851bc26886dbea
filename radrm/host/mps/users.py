"""Find out whether an MPS server takes clients of several users at a time.

Theory of operation. `mps.multiuser` asks for that, and only a control daemon of root obeys. Old
control daemons refuse the option. Others accept it but still serve one user after another. So
radrm trusts only what it sees. A server that belongs to root and has a client of another user
takes several users; a server that belongs to that user takes one. What was seen is true for the
life of the control daemon (`Identity`: a reused pid is another one). The keeper's thread calls
the methods; the service may mark a reason before that thread starts, and other threads only read
`single_user_reason`. A restart looks again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from radrm.host.mps.control import MULTIUSER, PROGRAM, Control, Server
from radrm.host.processes.identity import Identity

log = logging.getLogger("radrm")


class Users:
    """The users of one control daemon's servers.

    `name` is the name of the control daemon in the log. `logged` holds the reasons that are in
    the log already; the control daemons of all GPUs share it.
    """

    def __init__(self, name: str, control: Control, logged: set[str]) -> None:
        self.single_user_reason: str | None = None
        """Why the servers take one user at a time, although `mps.multiuser` is set."""
        self._name = name
        self._control = control
        self._logged = logged
        self._seen: tuple[Identity, bool] | None = None
        """A control daemon, and whether its servers take several users, as seen."""
        self._started: tuple[Identity, bool] | None = None
        """The control daemon that this daemon started, and whether it accepted the option."""

    @property
    def may_share(self) -> bool:
        """True unless it is known that its servers take one user at a time."""
        return self._control.multiuser and self.single_user_reason is None

    def started(self, who: Identity) -> None:
        """Note that this daemon started a control daemon."""
        self._started = (who, self._control.has_multiuser_option())

    def differs_from_settings(self, who: Identity) -> bool:
        """Return whether an earlier daemon started it with another value of `mps.multiuser`."""
        if self._started is not None and self._started[0] == who:
            return False
        return self._control.has_multiuser_option() is not self._control.multiuser

    def multiuser(self, who: Identity, servers: Iterable[Server]) -> bool:
        """Return whether its servers were seen to take several users."""
        if not self._control.multiuser:
            return False
        if self._seen is None or self._seen[0] != who:
            found = next((s.multiuser for s in servers if s.multiuser is not None), None)
            if self._started == (who, False):
                found = False
                self.mark_single_user(f"this {PROGRAM} does not know {MULTIUSER[0]}")
            elif found is False:
                self.mark_single_user("its MPS server still takes one user at a time")
            if found is None:
                return False
            self._seen = (who, found)
            if found:
                self.single_user_reason = None
                log.info("MPS of %s takes jobs of several users at a time", self._name)
        return self._seen[1]

    def mark_single_user(self, reason: str) -> None:
        """Note why several users cannot be served at a time; log each reason once."""
        self.single_user_reason = f"mps.multiuser has no effect: {reason}"
        if reason not in self._logged:
            self._logged.add(reason)
            log.warning(
                "mps.multiuser has no effect: %s (%s); users take turns on a GPU's MPS server",
                *(reason, self._name),
            )
