"""Files in the format that their names say, for tests of all that reads files."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def save(path: Path, value: Any) -> Path:
    """A file in the format that its name says; text and bytes as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet") and not isinstance(value, bytes):
        pq.write_table(pa.Table.from_pylist(list(value)), path)
        return path
    if isinstance(value, bytes):
        data = value
    elif isinstance(value, str):
        data = value.encode()
    elif name.endswith((".csv", ".tsv")):
        cells = [list(value[0]), *[["" if cell is None else str(cell) for cell in row.values()] for row in value]]
        comma = "\t" if name.endswith(".tsv") else ","
        data = "".join(comma.join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row) + "\n" for row in cells).encode()
    elif name.endswith(".jsonl"):
        data = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in value).encode()
    else:
        data = json.dumps(value, ensure_ascii=False).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path
