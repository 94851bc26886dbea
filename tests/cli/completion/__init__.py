"""Completion of command lines."""
