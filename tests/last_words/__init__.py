"""The last words of failed programs, and what they prove."""
