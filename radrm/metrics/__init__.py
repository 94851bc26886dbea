"""Layer 7: figures for Prometheus. It needs the extra `metrics`."""
