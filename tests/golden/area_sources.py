"""What each kind of source makes of its documents: pages as digests, and reasons for what is no page."""

import gzip
import io
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from goldens import digest
from libzim.writer import Creator, Hint, Item, StringProvider

from sanderling.world.sources.base import Limits, Skipped
from sanderling.world.sources.kinds import kind_of, open_source

SMALL = Limits(document_bytes=6_000)
WORDS = (
    "herring", "Orlo", "town", "Straße", "1979", "sea.", "東京", "café;", "a_b", "*star*", "x < y", "[sic]", "`code`",
    "— so,",
)  # fmt: skip


def items(spec: str | Path, base: str = "", limits: Limits = SMALL) -> list[Any]:
    """Every item of a source in order: of a page its address, title and a digest of all of it; else where and why."""
    return [
        [one.where, one.reason.value] if isinstance(one, Skipped) else [one.url, one.title, digest(one.model_dump(mode="json"))]
        for one in open_source(spec, base_url=base, limits=limits).items()
    ]


def words(rng: random.Random, least: int = 3, most: int = 25) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def link(rng: random.Random) -> str:
    return rng.choice(
        (
            "x.html", "../up/y.html", "/root?q=1&b=2", "//other.example/z", "#here", "page0.html#frag", "mailto:a@b",
            "http://[bad", "https://far.example/p(1)", "sub", "sub/", "a b.html", "javascript:void(0)", "%E6%9D%B1.html",
            "",
        )
    )  # fmt: skip


def html_body(rng: random.Random, depth: int = 0) -> str:
    """A random piece of a page, mostly well-formed."""
    made: list[Callable[[], str]] = [
        lambda: f"<p>{words(rng)} <a href='{link(rng)}'>{words(rng, 0, 4)}</a> {words(rng)}</p>",
        lambda: f"<h{rng.randint(1, 6)}>{words(rng, 1, 5)}<a class=headerlink href='#x'>¶</a></h2>",
        lambda: f"<ul>{''.join(f'<li>{html_body(rng, depth + 1)}' for _ in range(rng.randint(1, 4)))}</ul>",
        lambda: f"<ol><li>{words(rng)}</li><li><p>{words(rng)}</p><p>{words(rng)}</p></li></ol>",
        lambda: f"<pre># not a heading\n\tx = {words(rng)}\n\n  y</pre>",
        lambda: f"<table><tr><th>{words(rng, 1, 3)}</th><td>{words(rng, 1, 3)}<br>b</td></tr><tr><td>c</table>",
        lambda: f"<blockquote>{words(rng)}</blockquote><dl><dt>t</dt><dd>{words(rng)}</dd></dl>",
        lambda: f"<div>{html_body(rng, depth + 1)}{html_body(rng, depth + 1)}</div>",
        lambda: (
            f"<em>{words(rng)}</em> <b>{words(rng)}</b> &amp; &lt;p&gt; &#8212; <code>a &lt; b</code>"
            f"<img alt='{words(rng)}' src=i>"
        ),
        lambda: f"<nav><ul><li><a href='/home'>Home</a></ul></nav><footer>{words(rng)}</footer><script>var x='<p>no'</script>",
        lambda: f"<article><h2>{words(rng, 1, 4)}</h2><a href='{link(rng)}'><h3>{words(rng, 1, 4)}</h3></a></article>",
        lambda: f"loose {words(rng)} <span>tail</span></p><i>",
    ]
    return rng.choice(made if depth < 3 else made[:2])()


def html_page(rng: random.Random) -> str:
    head = rng.choice(
        (
            "",
            "<title> A\n title &amp; more </title>",
            "<base href='/else/'>",
            "<meta charset=utf-8><title>T</title>",
            "<meta property='article:published_time' content='1979-05-25T10:00:00Z'>",
            "<meta name=date content='2001-02-03'>",
            "<link rel=canonical href='page0.html?x=1'><time datetime='2020-05-06'>x</time>",
        )
    )
    inner = "".join(html_body(rng) for _ in range(rng.randint(1, 7)))
    inner = f"<main>{inner}</main>" if rng.random() < 0.5 else inner
    return f"<!doctype html><html><head>{head}</head><body>{inner}</body></html>"


def markdown_page(rng: random.Random) -> str:
    made = (
        lambda: f"# {words(rng, 1, 4)} #",
        lambda: f"{words(rng, 1, 4)}\n{rng.choice('=-') * 5}",
        lambda: words(rng),
        lambda: f'see [{words(rng, 0, 3)}]({link(rng)} "t") and [ref][R] or [R] ![i](p.png) <https://bare.example/a>.',
        lambda: "```\n# code [a](b.md)\n```\n``[c](d.md)``  https://bare.example/x, done",
        lambda: "~~~\nopen fence [a](b.md)",
        lambda: f"- {words(rng)}\n- [x](<a b.md>)\n  1. {words(rng)}",
        lambda: "[r]: target.md 'title'",
        lambda: "",
    )
    head = rng.choice(("", "", "---\ntitle: Given title\ndate: 2020-01-02\n---\n", "---\nnot: closed\n", "\ufeff"))
    return head + "\n\n".join(rng.choice(made)() for _ in range(rng.randint(1, 9)))


def write_folder(place: Path) -> Path:
    rng = random.Random(5)
    (place / "sub" / "deep").mkdir(parents=True)
    for number in range(120):
        (place / f"page{number}.html").write_text(html_page(rng), encoding="utf-8")
    for number in range(60):
        (place / "sub" / f"note{number}.{('md', 'markdown', 'txt')[number % 3]}").write_text(
            markdown_page(rng), encoding="utf-8"
        )
    (place / "sub" / "index.html").write_text("<p>index of sub <a href='deep/'>deep</a> <a href='..'>up</a></p>")
    odd = {
        "empty.md": b"",
        "blank.html": b" \n",
        "noise.txt": bytes(range(1, 32)) * 90,
        "large.html": b"<p>" + b"word " * 2_000,
        "deep.html": b"<div>" * 1_100 + b"deep",
        "pic.png": b"x",
        "latin.html": "<meta charset=iso-8859-1><p>café über".encode("latin-1"),
        "utf16.txt": "café über".encode("utf-16"),
        "jp.html": "<title>日本</title><p>日本語のテキスト".encode("iso2022_jp"),
        "broken.html": "<p>東京は日本の首都である。".encode() + b"\xff\xfe and more" + b" words" * 20,
        "script.html": b"<script>x()</script>",
        "crlf.md": b"# T\r\n\r\nwords\rmore",
        "torn.pdf": pdf(("cut",))[:-80],
        "two.pdf": pdf(("First page words", "hyphen-")),
        "scan.pdf": pdf(("",)),
        "no.pdf": b"%PDF-1.4 nonsense",
        "name with \udcff.md": b"odd name",
    }
    for name, data in odd.items():
        (place / "sub" / "deep" / name).write_bytes(data)
    (place / "around").symlink_to(place)
    (place / "out.md").symlink_to("/nowhere/else")
    return place


def pdf(pages: tuple[str, ...]) -> bytes:
    """A PDF that says something on each page."""
    kids = " ".join(f"{10 + 2 * n} 0 R" for n in range(len(pages)))
    objects = {
        1: "<</Type/Catalog/Pages 2 0 R>>",
        2: f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>",
        3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        4: "<</Title(A title)/CreationDate(D:20200301120000Z)>>",
    }
    for n, said in enumerate(pages):
        stream = f"BT /F1 12 Tf 20 100 Td ({said}) Tj ET" if said else ""
        objects[10 + 2 * n] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 200]/Resources<</Font<</F1 3 0 R>>>>/Contents {11 + 2 * n} 0 R>>"
        )
        objects[11 + 2 * n] = f"<</Length {len(stream)}>>stream\n{stream}\nendstream"
    data, places = b"%PDF-1.4\n", {}
    for number, body in objects.items():
        places[number] = len(data)
        data += f"{number} 0 obj{body}endobj\n".encode()
    table = "".join(f"{number} 1\n{at:010} 00000 n \n" for number, at in places.items())
    end = f"xref\n0 1\n0000000000 65535 f \n{table}trailer<</Size 40/Root 1 0 R/Info 4 0 R>>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + end.encode()


def record(
    url: str, body: bytes, mime: str = "text/html", head: str = "", status: str = "200 OK", kind: str = "response"
) -> bytes:
    http = f"HTTP/1.1 {status}\r\nContent-Type: {mime}\r\n{head}\r\n".encode() + body
    if kind == "conversion":
        http = body
    about = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
    about += "WARC-Record-ID: <urn:uuid:12345678-1234-1234-1234-123456789abc>\r\n"
    written = mime if kind == "conversion" else f"application/http; msgtype={kind}"
    about += f"Content-Type: {written}\r\nContent-Length: {len(http)}\r\n\r\n"
    return about.encode() + http + b"\r\n\r\n"


def write_warc(place: Path) -> Path:
    rng = random.Random(6)
    page = html_page(rng).encode()
    records = [record(f"https://w.example/{n}/page.html", html_page(rng).encode()) for n in range(20)]
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(page), page)
    records += [
        record("https://w.example/gz", gzip.compress(page, mtime=0), head="Content-Encoding: gzip\r\n"),
        record("https://w.example/unpacked", page, head="Content-Encoding: gzip\r\n"),
        record("https://w.example/deflate", zlib.compress(page), head="Content-Encoding: deflate\r\n"),
        record("https://w.example/damaged", b"\x1f\x8b damaged", head="Content-Encoding: gzip\r\n"),
        record("https://w.example/chunked", chunked, head="Transfer-Encoding: chunked\r\n"),
        record("https://w.example/said-chunked", page, head="Transfer-Encoding: chunked\r\n"),
        record("https://w.example/bomb", gzip.compress(b"<p>" + b"w " * 50_000, mtime=0), head="Content-Encoding: gzip\r\n"),
        record("https://w.example/large", b"<p>" + b"w " * 5_000),
        record("https://w.example/a?x=1&s=2", b"<link rel=canonical href='/a?x=1'><p>words <a href='/a?x=1'>self</a>"),
        record("https://w.example/b", b"<link rel=canonical href='https://else.example/b'><p>words"),
        record("https://w.example/404", page, status="404 Not Found"),
        record("https://w.example/301", page, status="301 Moved"),
        record("https://w.example/odd", page, status="x"),
        record("https://w.example/pic", b"PNG", mime="image/png"),
        record("https://w.example/text", b"plain\nwords https://bare.example/.", mime="text/plain"),
        record("https://w.example/pdf", pdf(("From a crawl",)), mime="application/pdf"),
        record("https://w.example/latin", "<p>café".encode("latin-1"), mime="text/html; charset=iso-8859-1"),
        record("", page),
        record("https://w.example/asked", page, kind="request"),
        record("https://w.example/again", page, kind="revisit"),
        record("https://w.example/wet", b"Converted words of a page.", mime="text/plain", kind="conversion"),
    ]
    place.write_bytes(b"".join(gzip.compress(one, mtime=0) for one in records)[:-20])
    return place


class Entry(Item):
    """One entry of a ZIM file."""

    def __init__(self, path: str, content: str, mime: str) -> None:
        super().__init__()
        self.path, self.content, self.mime = path, content, mime

    def get_path(self) -> str:
        return self.path

    def get_title(self) -> str:
        return f"Title of {self.path}"

    def get_mimetype(self) -> str:
        return self.mime

    def get_contentprovider(self) -> StringProvider:
        return StringProvider(self.content)

    def get_hints(self) -> dict[Hint, int]:
        return {Hint.FRONT_ARTICLE: True}


def write_zim(place: Path) -> Path:
    rng = random.Random(7)
    with Creator(place).config_indexing(False, "en") as creator:
        creator.set_mainpath("a0")
        for n in range(12):
            body = f"<p>{words(rng)} <a href='old'>moved</a> <a href='a{n + 1}#x'>next</a> <a href='none'>none</a></p>"
            creator.add_item(Entry(f"a{n}", body, "text/html"))
        creator.add_item(Entry("note", "# Note\n\n[a](a1)", "text/markdown"))
        creator.add_item(Entry("plain", "words", "text/plain"))
        creator.add_item(Entry("style", "x", "text/css"))
        creator.add_item(Entry("large", "<p>" + "w " * 5_000, "text/html"))
        creator.add_item(Entry("empty", "<script>x</script>", "text/html"))
        creator.add_redirection("old", "old", "a1", {})
    return place


ROWS: list[Any] = [
    {"url": "https://w.example/1", "title": "T", "text": "one", "links": ["https://l.example/"], "date": "2020"},
    {"id": 3, "text": "three"},
    {"docid": "d4", "contents": "Title line\nfour"},
    {"url": "https://w.example/5", "content": "five"},
    {"id": "6", "contents": '"Quoted"\nsix'},
    {"url": " ", "text": "no address"},
    {"text": "no address"},
    {"url": "https://e.example/", "text": " "},
    {"url": "https://w.example/f", "text": "---\ntitle: Front\ndate: 2020-01-02\n---\nfront matter"},
    {"url": 2, "text": "two"},
    [1],
    "x",
    None,
    {"url": "https://w.example/d", "doc": "doc"},
    {"url": "https://w.example/o", "text": "o", "title": 5},
    {"_id": "q", "text": "beir", "title": "B"},
    {"url": "https://w.example/big", "text": "w " * 4_000},
]


def write_jsonl(place: Path) -> Path:
    lines = [json.dumps(row).encode() for row in ROWS] + [b"", b"{", b"\xff\xfe{}", b"  "]
    data = b"\xef\xbb\xbf" + b"\n".join(lines) + b"\n" + lines[0]
    held = io.BytesIO()
    with gzip.GzipFile(fileobj=held, mode="wb", mtime=0) as file:
        file.write(data)
    place.write_bytes(held.getvalue()[:-5] if place.suffix == ".gz" else data)
    return place


def write_parquet(place: Path) -> Path:
    rows = [
        {
            "docid": str(n),
            "url": f"https://w.example/{n}" if n % 5 else None,
            "text": f"---\ntitle: T{n}\n---\nWords of {n}.",
            "other": n,
        }
        for n in range(40)
    ]
    for row in rows[6::7]:
        row["text"] = " "
    rows[3]["text"] = "w " * 4_000
    pq.write_table(pa.Table.from_pylist(rows), place, row_group_size=9)
    return place


def make(scratch: Path, recorded: Path | None) -> dict[str, Any]:
    """All cases of the area."""
    folder = write_folder(scratch / "site")
    cases: dict[str, Any] = {
        "folder": items(folder),
        "folder below a base": digest(items(folder, "https://docs.example/v1", Limits(document_bytes=9_000, depth=40))),
        "one file": items(folder / "page0.html"),
        "warc": items(write_warc(scratch / "crawl.warc.gz")),
        "zim": items(write_zim(scratch / "little wiki.zim")),
        "zim below a base": items(scratch / "little wiki.zim", "https://wiki.example/w"),
        "jsonl": items(write_jsonl(scratch / "rows.jsonl")),
        "jsonl, torn gzip": digest(items(write_jsonl(scratch / "rows.jsonl.gz"))),
        "parquet": items(write_parquet(scratch / "corpus.parquet")),
        "encyclopedia": digest(items("encyclopedia:80/4")),
        "kinds": [kind_of(place) for place in (folder, *sorted(scratch.glob("*.*")))],
    }
    return cases
