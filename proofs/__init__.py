"""What proves radrm's promises by force: harnesses that run for minutes or hours.

    crash          `kill -9` at each fault point, and each job accounted for
    fuzz           hostile inputs for each parser and for a daemon
    soak           a daemon under faults and hostile users, for hours
    systemd        the service under a real systemd, in namespaces
    packaging      the wheel and the Debian package, installed and tried
    acceptance     the plan for a real GPU

What they share: `processes` (what runs, what is left) and `server` (a store and a simulated driver,
from outside).

`make proofs` runs the first three, as CI does each night; the others need root or a GPU and are run
by hand. Their own unit tests are beside them, and `make test` runs those on each push.
"""
