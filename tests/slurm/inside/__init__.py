"""Tests of what Slurm's words mean inside a job."""
