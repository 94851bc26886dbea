"""What earlier releases have written, for the tests of upgrades."""
