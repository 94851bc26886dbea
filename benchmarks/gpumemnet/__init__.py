"""GPUMemNet's networks: their training data, their training and their accuracy.

Needs PyTorch and timm, radrm itself does not:

    python -m benchmarks.gpumemnet.timm_models     features of TIMM's models
    python -m benchmarks.gpumemnet.label           random networks, labelled by tracing
    python -m benchmarks.gpumemnet.train           the weights and docs/lab/gpumemnet-tables.md

data        the rows: features and memory, from ../shared and from `data/` here
nets        random CNNs and transformers in the ranges of the thesis
summaries   the summary of a PyTorch module, without running it
timm_models, label, train    the three commands
"""
