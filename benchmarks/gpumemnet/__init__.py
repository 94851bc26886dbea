"""GPUMemNet's networks: their training data, their training and their accuracy.

Needs PyTorch and timm, radrm itself does not:

    python -m benchmarks.gpumemnet.timm_models     features of TIMM's models
    python -m benchmarks.gpumemnet.label           random networks, labelled by tracing, or on a GPU
    python -m benchmarks.gpumemnet.train           the weights, and the tables of the page
    python -m benchmarks.gpumemnet.series          the thesis's transformer estimator
    python -m benchmarks.gpumemnet.extremes        the worst estimates of the published jobs
    python -m benchmarks.gpumemnet.regression      memory as a number, beside classes

data        the rows: features and memory, from ../shared and from `data/` here
nets        random CNNs and transformers in the ranges of the thesis
summaries   the summary of a PyTorch module, without running it
timm_models, label, train, series, extremes, regression    the commands
"""
