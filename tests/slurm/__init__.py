"""radrm under a real Slurm, which the tests start themselves (`cluster.py`)."""
