"""`radrun` as a process, with real workers that use `elastic` and no torch."""
