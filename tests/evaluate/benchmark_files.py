"""Made-up files in public layouts, and an encrypter written apart from the package's decrypter."""

import base64
import csv
import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq

CONTROLS = {"\r": "_x000D_"}
"""XML reads a bare \\r as \\n, so workbooks write it so."""


def by_hash(text: str, canary: str) -> str:
    """As BrowseComp hides a text."""
    pairs = zip(text.encode(), cycle(hashlib.sha256(canary.encode()).digest()), strict=False)
    return base64.b64encode(bytes(a ^ b for a, b in pairs)).decode()


def by_bytes(text: str, canary: str) -> str:
    """As xBench hides a text."""
    return base64.b64encode(bytes(a ^ b for a, b in zip(text.encode(), cycle(canary.encode()), strict=False))).decode()


def write_rows(path: Path, rows: Sequence[dict[str, Any]], **csv_options: Any) -> Path:
    """In the format that the name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        return path
    if name.endswith(".xlsx"):
        return write_workbook(path, [list(rows[0]), *[list(row.values()) for row in rows]])
    if name.endswith(".jsonl"):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    elif name.endswith(".json"):
        text = json.dumps(list(rows), ensure_ascii=False, indent=1)
    else:
        stream = io.StringIO(newline="")
        delimiter = "\t" if name.endswith(".tsv") else ","
        writer = csv.DictWriter(stream, list(rows[0]), delimiter=delimiter, **csv_options)
        writer.writeheader()
        writer.writerows(rows)
        text = stream.getvalue()
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def write_workbook(path: Path, table: Sequence[Sequence[Any]], *, cells: str = "") -> Path:
    """Texts shared, as spreadsheet programs write them; empty cells are left out; ``cells``: raw XML of one more row."""
    texts: dict[str, int] = {}
    rows = []
    for number, row in enumerate(table, start=1):
        found = [
            f'<c r="{chr(65 + at)}{number}" t="s"><v>{texts.setdefault(str(value), len(texts))}</v></c>'
            for at, value in enumerate(row)
            if value not in (None, "")
        ]
        rows.append(f'<row r="{number}">{"".join(found)}</row>')
    rows += [f"<row>{cells}</row>"] if cells else []
    shared = "".join(f"<si><t>{escape(text, CONTROLS)}</t></si>" for text in texts)
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    kin = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "_rels/.rels",
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            f'<Relationship Id="rId1" Type="{kin}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook {main} xmlns:r="{kin}"><sheets><sheet name="S" sheetId="1" r:id="rId7"/></sheets></workbook>',
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            f'<Relationship Id="rId7" Type="{kin}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        )
        archive.writestr("xl/sharedStrings.xml", f"<sst {main}>{shared}</sst>")
        archive.writestr("xl/worksheets/sheet1.xml", f"<worksheet {main}><sheetData>{''.join(rows)}</sheetData></worksheet>")
    return path
