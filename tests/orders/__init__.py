"""The orders."""
