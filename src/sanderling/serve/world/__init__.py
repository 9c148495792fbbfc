"""Servers of worlds: the same pages behind a native API, four dialects that others' clients speak, and MCP."""
