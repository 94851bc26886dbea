"""Recoveries: what follows GPU out-of-memory? One class per file, registered below.

The files, in the order in which they may import one another:
    exclusive      an idle device, which others may join
    own_device     a device of its own, which no job joins
    looser         what the recoveries that wait for no idle device have in common
    ladder         the next device with room for the peak plus a step
    doubling       the next device with room for twice what the job had
    none           the job fails
"""

RECOVERIES = {
    "exclusive": "radrm.recovery.exclusive:IdleDevice",
    "own-device": "radrm.recovery.own_device:OwnDevice",
    "ladder": "radrm.recovery.ladder:Ladder",
    "doubling": "radrm.recovery.doubling:Doubling",
    "none": "radrm.recovery.none:NoRecovery",
}
