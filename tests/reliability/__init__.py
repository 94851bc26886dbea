"""What strangers can run to see that radrm loses nothing: a crash matrix, fuzzing and a soak.

A short form of each is in the suite; `make crash`, `make fuzz` and `make soak` run for hours.
"""
