"""Layer 7: the web page of `radrm serve`. It needs the extra `web`."""
