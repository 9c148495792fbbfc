"""A world on Milvus: pages and both indexes on a server, for more pages than one machine searches well."""

from pathlib import Path

POINTER = "milvus.json"


def is_pointer(directory: Path) -> bool:
    """Whether a directory stands for a world on Milvus."""
    return (directory / POINTER).is_file()
