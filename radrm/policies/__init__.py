"""Policies: which devices does this job get now? Registered below.

The files:
    sharing        the policies of the literature: the same conditions, each with its preference
    exclusive      idle devices only
    packing        the device whose work a job adds most to, by the model of interference
"""

POLICIES = {
    "exclusive": "radrm.policies.exclusive:Exclusive",
    "rr": "radrm.policies.sharing:RoundRobin",
    "magm": "radrm.policies.sharing:Magm",
    "lug": "radrm.policies.sharing:Lug",
    "mug": "radrm.policies.sharing:Mug",
    "first-fit": "radrm.policies.sharing:FirstFit",
    "best-fit": "radrm.policies.sharing:BestFit",
    "packing": "radrm.policies.packing:Packing",
}
