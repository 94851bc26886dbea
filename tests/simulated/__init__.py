"""Tests of `radrm.simulated`."""
