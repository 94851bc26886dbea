"""Layer 6: radrm from Python programs: `from radrm import Client`."""
