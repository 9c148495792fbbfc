"""The python tool: programs that the model writes, run in a sandbox with limits."""
