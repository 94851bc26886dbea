"""Recoveries: what follows GPU out-of-memory? One class per file, registered below.

The files, in the order in which they may import one another:
    exclusive      an idle device, which others may join
    own_device     a device of its own, which no job joins
    none           the job fails
"""

RECOVERIES = {
    "exclusive": "radrm.recovery.exclusive:IdleDevice",
    "own-device": "radrm.recovery.own_device:OwnDevice",
    "none": "radrm.recovery.none:NoRecovery",
}
