"""Policies: which devices does this job get now? One class per file, registered below.

The files, in the order in which they may import one another:
    sharing        the conditions that the policies of the literature have in common
    exclusive      idle devices only
    rr             the next device in a fixed cycle
    magm           the device with the most free memory
    lug            the least busy device
    mug            the busiest device
    first_fit      the first device with room
    best_fit       the fullest device with room
    packing        the device whose work a job adds most to, by the model of interference
"""

POLICIES = {
    "exclusive": "radrm.policies.exclusive:Exclusive",
    "rr": "radrm.policies.rr:RoundRobin",
    "magm": "radrm.policies.magm:Magm",
    "lug": "radrm.policies.lug:Lug",
    "mug": "radrm.policies.mug:Mug",
    "first-fit": "radrm.policies.first_fit:FirstFit",
    "best-fit": "radrm.policies.best_fit:BestFit",
    "packing": "radrm.policies.packing:Packing",
}
