"""Writes the files that the tests of sources read: WARC records, ZIM entries, and a source of every kind."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from libzim.writer import Creator, Hint, Item, StringProvider

from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world

BODY = b"<title>Orlo</title><p>Orlo is a town by the sea, known for its herring.</p><a href='/x'>x</a>"


def record(url: str, body: bytes = BODY, mime: str = "text/html", head: str = "", status: str = "200 OK", kind="response"):
    http = f"HTTP/1.1 {status}\r\nContent-Type: {mime}\r\n{head}\r\n".encode() + body
    return block(url, http, kind, "application/http; msgtype=response")


def block(url: str, content: bytes, kind: str, mime: str) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
        f"WARC-Record-ID: <urn:uuid:12345678-1234-1234-1234-123456789abc>\r\nContent-Type: {mime}\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content + b"\r\n\r\n"


class Entry(Item):
    def __init__(self, path: str, content: str, mime: str = "text/html") -> None:
        super().__init__()
        self.path, self.content, self.mime = path, content, mime

    def get_path(self):
        return self.path

    def get_title(self):
        return f"Title of {self.path}"

    def get_mimetype(self):
        return self.mime

    def get_contentprovider(self):
        return StringProvider(self.content)

    def get_hints(self):
        return {Hint.FRONT_ARTICLE: True}


def write_folder(place: Path) -> Path:
    root = place / "notes"
    (root / "sub" / "deep").mkdir(parents=True)
    for name in ("b.md", "a.html", "sub/c.txt", "sub/deep/d.md", "p.png"):
        (root / name).write_text(f"Words of {name}.")
    (root / "empty.md").write_bytes(b"")
    (root / "around").symlink_to(root)
    return root


def write_jsonl(place: Path) -> Path:
    file = place / "rows.jsonl.gz"
    rows = b'{"url": "https://w.example/1", "text": "one"}\n\n{"url": 2\n{"id": 3, "text": "three"}\n' + b"x" * 3_000 + b"\n"
    file.write_bytes(gzip.compress(rows * 3)[:-5])
    return file


def write_warc(place: Path) -> Path:
    file = place / "crawl.warc.gz"
    records = [record(f"https://w.example/{n}", b"<p>%d" % n, status="200 OK" if n % 3 else "404 No") for n in range(9)]
    file.write_bytes(b"".join(gzip.compress(one) for one in records)[:-20])
    return file


def write_zim(place: Path) -> Path:
    file = place / "little wiki.zim"
    with Creator(file).config_indexing(False, "en") as creator:
        creator.set_mainpath("a")
        for name in "abcd":
            creator.add_item(Entry(name, f"<h1>{name}</h1><p>Words of {name}.</p>"))
        creator.add_redirection("old", "old", "a", {})
    return file


def write_parquet(place: Path) -> Path:
    """Groups of different sizes; every seventh row is no page."""
    rows = [
        {"docid": str(n), "url": f"https://w.example/{n}", "text": f"---\ntitle: T{n}\ndate: 2020-01-02\n---\nWords of {n}."}
        for n in range(30)
    ]
    for row in rows[6::7]:
        row["text"] = " "
    with pq.ParquetWriter(place / "corpus.parquet", pa.Table.from_pylist(rows).schema) as writer:
        for start, end in ((0, 1), (1, 9), (9, 30)):
            writer.write_table(pa.Table.from_pylist(rows[start:end]))
    return place / "corpus.parquet"


def write_world(place: Path) -> Path:
    pages = [Page(url=f"https://w.example/{n}", title=f"Page {n}", text=f"Words of page {n}.") for n in range(5)]
    build_world(place / "old", pages, name="old", source="test")
    return place / "old"


WRITERS: dict[str, Callable[[Path], Path]] = {
    "folder": write_folder, "jsonl": write_jsonl, "parquet": write_parquet, "warc": write_warc, "world": write_world,
    "zim": write_zim,
}  # fmt: skip
"""Writes a source of each kind that lies in files, with pages and reasons in it; those that can be are damaged at their end."""
