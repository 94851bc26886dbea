"""The launcher of Hydra: `python app.py -m hydra/launcher=radrm lr=0.1,0.01`.

The files, in the order in which they may import one another:
    config    the launcher's configuration
    launcher  runs the jobs of a sweep, by radrm's plugin of submitit
"""
