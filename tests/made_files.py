"""Files in the format that their names say, for tests of all that reads files."""

import gzip
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pypdf


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


def pdf(words: str) -> bytes:
    """A PDF of one page."""
    writer, kind, table = pypdf.PdfWriter(), pypdf.generic.NameObject, pypdf.generic.DictionaryObject
    page, stream, out = writer.add_blank_page(600, 200), pypdf.generic.StreamObject(), BytesIO()
    font = table({kind("/Type"): kind("/Font"), kind("/Subtype"): kind("/Type1"), kind("/BaseFont"): kind("/Helvetica")})
    page[kind("/Resources")] = table({kind("/Font"): table({kind("/F1"): font})})
    stream.set_data(f"BT /F1 12 Tf 20 100 Td ({words}) Tj ET".encode())
    page[kind("/Contents")] = stream
    writer.write(out)
    return out.getvalue()
