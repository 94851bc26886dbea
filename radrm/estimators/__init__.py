"""What will this job need? One estimator per file; each is a class, named here once.

A declared `--gpu-memory` beats every estimator; that rule is the wiring's, not theirs.
"""

ESTIMATORS = {
    "declared": "radrm.estimators.declared:Declared",
    "none": "radrm.estimators.none:NoEstimate",
}
