"""An attempt died of GPU out-of-memory: what now? One rule per file, named here once.

The files, in the order in which they may import one another:
    exclusive      an idle device, which others may join
    own_device     a device that nobody joins
    none           the job fails
"""

RECOVERIES = {
    "exclusive": "radrm.recovery.exclusive:IdleDevice",
    "own-device": "radrm.recovery.own_device:OwnDevice",
    "none": "radrm.recovery.none:NoRecovery",
}
