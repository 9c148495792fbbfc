"""``python -m sanderling``."""

from sanderling.cli.main import main

main()
