"""Pilots: their parts, and whole ones under a real Slurm."""
