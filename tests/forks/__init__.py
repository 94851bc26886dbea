"""Daemons and commands of tests start as forks of one process that has imported them, and tests run
in forks of one that has collected them.

workers    the plugin of pytest that gives each fork its tests
template   the process that has made the imports and forks
daemons    asks it for one, as `subprocess` would start it
"""

from __future__ import annotations

LONGEST = 1 << 17
"""Bytes of a message: it has a whole environment."""
