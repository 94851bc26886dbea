"""What the batch step does, without a Slurm."""
