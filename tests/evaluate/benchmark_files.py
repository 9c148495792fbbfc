"""Made-up files in public layouts, and an encrypter written apart from the package's decrypter."""

import base64
import csv
import hashlib
import io
import json
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def by_hash(text: str, canary: str) -> str:
    """As BrowseComp hides a text."""
    pairs = zip(text.encode(), cycle(hashlib.sha256(canary.encode()).digest()), strict=False)
    return base64.b64encode(bytes(a ^ b for a, b in pairs)).decode()


def by_bytes(text: str, canary: str) -> str:
    """As xBench hides a text."""
    return base64.b64encode(bytes(a ^ b for a, b in zip(text.encode(), cycle(canary.encode()), strict=False))).decode()


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """In the format that the name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        return path
    if name.endswith(".jsonl"):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    elif name.endswith(".json"):
        text = json.dumps(list(rows), ensure_ascii=False, indent=1)
    else:
        stream = io.StringIO(newline="")
        delimiter = "\t" if name.endswith(".tsv") else ","
        writer = csv.DictWriter(stream, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
        text = stream.getvalue()
    path.write_bytes(text.encode())
    return path
