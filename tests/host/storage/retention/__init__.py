"""Tests of what goes when it is old."""
