"""Daemons and commands of tests start as forks of one process that has imported them.

template   the process that has made the imports and forks
daemons    asks it for one, as `subprocess` would start it
"""

from __future__ import annotations

LONGEST = 1 << 17
"""Bytes of a message: it has a whole environment."""
