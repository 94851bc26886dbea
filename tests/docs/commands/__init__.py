"""The commands that the documentation shows: found, parsed and run."""
