"""Tests of what goes when it is old, and of what earlier releases have written."""
