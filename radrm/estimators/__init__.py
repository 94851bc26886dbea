"""Estimators: what will this job need? One class per file, registered below.

A declared `--gpu-memory` overrides every estimator; `wiring` puts it first.

The files, in the order in which they may import one another:
    interface    the input and the output of an estimator
    describing   the description of a job for estimators, from its job file
    memory       how PyTorch uses a GPU's memory: allocator, CUDA context, workspaces
    families     kinds of models, whose errors differ
    learning     corrections of an estimator by earlier runs (a folder)
    traces       traces of a training step: documents, replayed
    summaries    readers of model summaries (a folder)
    symbolic     a training step made from a summary's layers (a folder)
    declared     the submitter's figure, or an earlier measurement; and no estimate
    history      the need of earlier runs of the same job
    horus        the formula of Horus
    gpumemnet    the learned classifier of RAD-RM's thesis (a folder)
    summary      the training step made from a summary, through the allocator
    trace        the traced training step, through the allocator; FakeTensor, as RAD-RM used it
    script       the job's own command, traced for a few steps
    auto         the first of several estimators that answers, with an upper bound
"""

ESTIMATORS = {
    "auto": "radrm.estimators.auto:Auto",
    "declared": "radrm.estimators.declared:Declared",
    "history": "radrm.estimators.history:History",
    "trace": "radrm.estimators.trace:Trace",
    "script": "radrm.estimators.script:Script",
    "summary": "radrm.estimators.summary:Summary",
    "faketensor": "radrm.estimators.trace:FakeTensor",
    "gpumemnet": "radrm.estimators.gpumemnet.estimator:GPUMemNet",
    "horus": "radrm.estimators.horus:Horus",
    "none": "radrm.estimators.declared:NoEstimate",
}
