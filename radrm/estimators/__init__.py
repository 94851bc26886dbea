"""What will this job need? One estimator per file; each is a class, named here once.

A declared `--gpu-memory` beats every estimator; that rule is the wiring's, not theirs.

The files, in the order in which they may import one another:
    errors_seen         how far each estimator was off where it was measured
    contexts            what the CUDA context takes here
    learned             what past runs on this machine say of an estimator
    fingerprint         what two runs of the same thing have in common
    allocator           PyTorch's caching allocator, in figures
    overheads           CUDA context and library workspaces, by kind of GPU
    workspaces          the scratch memory of one convolution
    traced              what a trace of a training step tells
    summaries           a model's summary, read (a folder)
    symbolic            a training step made of a summary's layers (a folder)
    gpumemnet_features  what GPUMemNet is told of a model
    gpumemnet_ensemble  its networks at work
    declared            what the submitter says, or what was measured before
    history             what the very same thing needed before
    none                nothing
    horus               the formula of Horus
    gpumemnet           the learned classifier of RAD-RM's thesis
    summary             the training step made of a summary, through the allocator
    trace               the traced training step, through the allocator
    faketensor          PyTorch's FakeTensor, as RAD-RM used it
    auto                the first of several that answers, with an upper bound

`weights/` is data: GPUMemNet's trained networks, written by `python -m benchmarks.gpumemnet.train`.
"""

ESTIMATORS = {
    "auto": "radrm.estimators.auto:Auto",
    "declared": "radrm.estimators.declared:Declared",
    "history": "radrm.estimators.history:History",
    "trace": "radrm.estimators.trace:Trace",
    "summary": "radrm.estimators.summary:Summary",
    "faketensor": "radrm.estimators.faketensor:FakeTensor",
    "gpumemnet": "radrm.estimators.gpumemnet:GPUMemNet",
    "horus": "radrm.estimators.horus:Horus",
    "none": "radrm.estimators.none:NoEstimate",
}
