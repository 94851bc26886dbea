"""Which devices, for this job, now? One rule per file; a rule is a class, named here once."""

POLICIES = {
    "exclusive": "radrm.policies.exclusive:Exclusive",
    "magm": "radrm.policies.magm:Magm",
}
