"""Tool servers that speak MCP: as child processes, behind an address, or a dock of them."""
