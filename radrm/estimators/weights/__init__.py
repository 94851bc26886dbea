"""GPUMemNet's trained networks, one module per family, written by
`python -m benchmarks.gpumemnet.train` (docs/gpumemnet.md).

Each holds what `radrm.estimators.gpumemnet_ensemble.Weights` names. They are constants of
modules, and no files beside them, since estimators read no files; a family is imported
when the first job of its kind comes.
"""
