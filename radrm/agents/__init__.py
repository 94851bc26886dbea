"""Layer 7: tools for coding agents, `radrm mcp`. It needs the extra `mcp`."""
