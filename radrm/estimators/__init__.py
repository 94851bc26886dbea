"""What will this job need? One estimator per file; each is a class, named here once.

A declared `--gpu-memory` beats every estimator; that rule is the wiring's, not theirs.

The files, in the order in which they may import one another:
    torchsummary   the table that torchsummary prints, read
    declared       what the submitter says, or what was measured before
    none           nothing
    horus          the formula of Horus
"""

ESTIMATORS = {
    "declared": "radrm.estimators.declared:Declared",
    "horus": "radrm.estimators.horus:Horus",
    "none": "radrm.estimators.none:NoEstimate",
}
