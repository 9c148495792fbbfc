"""Pages that no reader of the web should stumble over, for `fetch`: what a site writes, byte by byte, and what may become of it.

Each has a kind, a name, its bytes or how they are written without end, and the statuses that are right for it, where one is.
"""

# ruff: noqa: D103, E501, SIM905 (a case a line; the functions are named after their cases)
# fmt: off

import asyncio
import gzip
import io
import random
import zipfile
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import cache

import pypdf

LONG = "".join(f"<p>On day {n} the tide carved the flats and left herring in pools for the keeper.</p>\n" for n in range(30))
PAGE = f"<!doctype html><html><head><title>Tides</title></head><body><h1>Tides</h1>\n{LONG}</body></html>".encode()
OK, NO, GONE = "ok", "not_text", "not_found"
Writing = Callable[[], AsyncIterator[bytes]]


@dataclass(frozen=True)
class Case:
    """A page: what its server writes, and what may become of it (none given: anything but an exception)."""

    kind: str
    name: str
    reply: bytes | Writing
    wanted: tuple[str, ...] = ()
    robots: bytes = b"HTTP/1.1 404 no\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def http(
    body: bytes = PAGE, kind: str = "text/html; charset=utf-8", status: str = "200 OK", length: str | None = None, *more: str
):
    """A reply that closes its connection."""
    size = str(len(body)) if length is None else length
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}" if kind else "X-No: type", "Connection: close", *more]
    lines += [f"Content-Length: {size}"] if size else []
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body


def html(inside: str, title: str = "Tides") -> bytes:
    return http(f"<html><head><title>{title}</title></head><body>{inside}</body></html>".encode("utf-8", "surrogatepass"))


# -- the cases -------------------------------------------------------------------------------------------------------------


def wrong_lengths() -> Iterator[Case]:
    for name, body, kind in (
        ("html", PAGE, "text/html"), ("text", b"tide " * 200, "text/plain"), ("pdf", pdf(), "application/pdf"),
    ):
        lengths = [
            "0", "1", "-1", "abc", "1e3", "", str(len(body) - 9), str(len(body) + 9), str(10**18), "12, 13",
            f"{len(body)}, {len(body)}",
        ]
        for length in lengths:
            fine = length in ("", f"{len(body)}, {len(body)}")
            yield Case("wrong lengths", f"{name} {length}", http(body, kind, "200 OK", length), (OK,) if fine else ())
        yield Case("wrong lengths", f"{name} chunked too", http(body, kind, "200 OK", "7", "Transfer-Encoding: chunked"))
        chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        yield Case("wrong lengths", f"{name} chunked", http(chunked, kind, "200 OK", "", "Transfer-Encoding: chunked"), (OK,))
        for wrong in (
            b"zz\r\n", b"-5\r\nabcde\r\n", b"ffffffffffffffff\r\nab", b"5;" + b"x" * 100_000 + b"\r\nabcde\r\n0\r\n\r\n",
            b"5\r\nabcdeX",
        ):
            yield Case("wrong lengths", f"{name} {wrong[:8]!r}", http(wrong, kind, "200 OK", "", "Transfer-Encoding: chunked"))


def endless() -> Iterator[Case]:
    def again(head: bytes, piece: bytes, pause_s: float = 0.0) -> Writing:
        async def write() -> AsyncIterator[bytes]:
            yield head
            while True:
                yield piece
                await asyncio.sleep(pause_s)

        return write

    head = http(b"", "text/html", "200 OK", "")
    for kind in ("text/html", "text/plain", "application/pdf", "application/octet-stream", ""):
        for name, piece in (
            ("words", b"<p>tide</p>" * 1_000), ("nulls", bytes(65_536)), ("links", b"<a href=/x>y</a>" * 1_000),
        ):
            yield Case("endless", f"{kind} {name}", again(http(b"", kind, "200 OK", ""), piece), (NO, "timeout"))
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    stream = packer.compress(bytes(1 << 22))
    for name, piece in (("chunks", b"400\r\n" + b"x" * 1024 + b"\r\n"), ("empty extensions", b"1;a=b\r\nx\r\n")):
        yield Case(
            "endless", name, again(http(b"", "text/html", "200 OK", "", "Transfer-Encoding: chunked"), piece), (NO, "timeout")
        )
    yield Case("endless", "gzip", again(http(b"", "text/html", "200 OK", "", "Content-Encoding: gzip"), stream or b"\0" * 9))
    yield Case("endless", "headers", again(b"HTTP/1.1 200 OK\r\n", b"X-More: tide\r\n" * 1_000))
    yield Case("endless", "one header", again(b"HTTP/1.1 200 OK\r\nX-More: ", b"tide" * 1_000))
    yield Case("endless", "1xx", again(b"", b"HTTP/1.1 103 Early\r\n\r\n" * 10))
    for n, pause_s in enumerate((0.01, 0.05, 0.3, 5.0)):
        yield Case("slow drips", f"body {pause_s}", again(head, b"<p>x", pause_s), ("timeout",))
        yield Case("slow drips", f"header {pause_s}", again(b"HTTP/1.1 200 OK\r\nX: ", b"y", pause_s), ("timeout",))
        yield Case("slow drips", f"nothing {n}", again(b"", b"", pause_s), ("timeout",))
        yield Case(
            "slow drips", f"chunk {pause_s}",
            again(head[:-2] + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", pause_s), ("timeout",),
        )
    for name, said in (
        ("at once", b""), ("in the status", b"HTTP/1.1 20"), ("in the headers", b"HTTP/1.1 200 OK\r\nContent-Ty"),
    ):
        yield Case("closed early", name, said, ("outage",))


def packed() -> Iterator[Case]:
    def said(name: str, body: bytes, coding: str, *wanted: str) -> Case:
        return Case("compression", name, http(body, "text/html", "200 OK", None, f"Content-Encoding: {coding}"), wanted)

    zipped, flat = gzip.compress(PAGE), zlib.compress(PAGE)
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    bare = raw.compress(PAGE) + raw.flush()
    for coding in ("gzip", "GZIP", " gzip ", "x-gzip"):
        yield said(f"good {coding}", zipped, coding, OK)
    yield said("deflate", flat, "deflate", OK)
    yield said("bare deflate", bare, "deflate", OK)
    yield said("gzip called deflate", zipped, "deflate", OK)
    yield said("identity", PAGE, "identity", OK)
    for coding in ("br", "zstd", "compress", "sdch", "gzip, gzip", "br, gzip", ", ".join(["gzip"] * 50), "x" * 500):
        yield said(f"other {coding[:12]}", zipped, coding, NO)
    twice = gzip.compress(zipped)
    yield said("gzip of gzip", twice, "gzip", NO)
    yield said("called gzip", PAGE, "gzip", NO)
    yield said("empty", b"", "gzip", NO)
    for cut in (1, 5, 10, 18, 40, len(zipped) // 2, len(zipped) - 1):
        yield said(f"cut at {cut}", zipped[:cut], "gzip")
    for at in (0, 3, 8, 12, 60, len(zipped) - 6, len(zipped) - 2):
        yield said(f"broken at {at}", zipped[:at] + bytes([zipped[at] ^ 0xFF]) + zipped[at + 1 :], "gzip")
    yield said("with rubbish behind", zipped + b"rubbish" * 100, "gzip", OK)
    for size in (17, 64, 512, 2048):
        yield said(f"bomb of {size} MB", bomb(size), "gzip", NO)
        yield said(f"bomb in gzip, {size} MB", gzip.compress(bomb(size)), "gzip, gzip", NO)


@cache
def bomb(size: int) -> bytes:
    packer, blank = zlib.compressobj(9, zlib.DEFLATED, 31), b"<b>" * 349_525
    return b"".join([packer.compress(PAGE), *(packer.compress(blank) for _ in range(size)), packer.flush()])


TEXTS = {
    "Die Möwe fraß die Krabbe am Strand, während die Flut über das Watt kam und schöne Prielufer bildete. ": (
        "utf-8", "cp1252", "utf-16",
    ),
    "Прилив поднялся над отмелью, и сельдь осталась в лужах до вечера, пока сторож считал рыбу. ": (
        "utf-8", "cp1251", "koi8-r", "utf-16",
    ),
    "潮水退去之后，鲱鱼留在沙滩的水洼里，守塔人把它们一条一条数清楚，写进日记。": ("utf-8", "gb18030", "big5hkscs", "utf-16"),
    "潮が引くと、灯台守は砂の上に残ったニシンを一匹ずつ数えて、日記に書いた。": ("utf-8", "shift_jis", "euc_jp", "iso2022_jp"),
    "조수가 빠지자 등대지기는 웅덩이에 남은 청어를 한 마리씩 세어 일기에 적었다. ": ("utf-8", "euc_kr", "utf-16"),
    "Η παλίρροια ανέβηκε πάνω από την αμμουδιά και οι ρέγγες έμειναν στις λακκούβες. ": ("utf-8", "iso8859_7"),
    "ارتفع المد فوق الرمال وبقي السمك في البرك حتى المساء بينما كان الحارس يعد. ": ("utf-8", "cp1256"),
}


def charsets() -> Iterator[Case]:
    for text, codings in TEXTS.items():
        for coding in codings:
            for declared in ("header", "meta", "nowhere", "wrongly"):
                meta = f'<meta charset="{coding}">' if declared == "meta" else ""
                body = f"<html><head>{meta}<title>x</title></head><body><p>{text * 8}</p></body></html>".encode(
                    coding, "replace"
                )
                said = {"header": f"; charset={coding}", "wrongly": "; charset=utf-7"}.get(declared, "")
                yield Case(
                    "charsets", f"{coding} {text[:6]} {declared}", http(body, f"text/html{said}"),
                    (OK,) if declared == "header" else (),
                )
    for mark in (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff", b"+/v8-"):
        yield Case("charsets", f"mark {mark!r}", http(mark + PAGE, "text/html"))
        yield Case("charsets", f"mark alone {mark!r}", http(mark, "text/html"))
    for charset in (
        "", "none", "utf-8; charset=koi8-r", "'utf-8'", "x" * 1000, "idna", "punycode", "rot13", "hex", "unicode_escape",
    ):
        yield Case("charsets", f"charset {charset[:20]}", http(PAGE, f"text/html; charset={charset}"), (OK,))
        yield Case("charsets", f"text {charset[:20]}", http(b"Tides of herring. " * 30, f"text/plain; charset={charset}"))


METADATA = (
    "http://169.254.169.254/latest http://169.254.169.254.:80/ http://2852039166/ http://0xa9fea9fe/ http://0251.0376.0251.0376/ "
    "http://[::ffff:169.254.169.254]/ http://[::ffff:a9fe:a9fe]/ http://[2002:a9fe:a9fe::]/ http://[64:ff9b::a9fe:a9fe]/ "
    "http://[fe80::1]/ http://[fd00:ec2::254]/ http://127.0.0.1/ http://127.1/ http://0/ http://0.0.0.0/ http://[::1]/ http://[::]/ "
    "http://localhost/ http://metadata.google.INTERNAL/ http://metadata.test/ http://both.test/ http://mapped.test/ "
    "http://１６９.254.169.254/ http://169。254。169。254/ http://a@169.254.169.254/ http://100.100.100.200/ http://168.63.129.16/ "
    "http://2886729729/ http://PRINTER.LOCAL/ http://intranet/ http://169.254.169.254%00.c.test/"
).split()


def redirects() -> Iterator[Case]:
    def to(where: str, status: str = "302 Found", *more: str) -> bytes:
        return http(b"", "text/html", status, None, f"Location: {where}", *more)

    blocked = ("blocked",)
    for where in METADATA:
        yield Case("to private addresses", where, to(where.encode().decode("latin-1")), ("blocked", "outage"))
    for where in (
        "file:///etc/passwd", "ftp://c.test/", "javascript:alert(1)", "data:text/html,<p>x", "gopher://c.test/",
        "about:blank",
    ):
        yield Case("to other schemes", where, to(where), ("blocked", "outage"))
    for status in (301, 302, 303, 307, 308):
        yield Case("redirections", f"{status} fine", to("http://fine.test:PPPPP/", f"{status} Moved"), (OK,))
        yield Case("redirections", f"{status} to itself", to("/", f"{status} Moved"), blocked)
    for status in (300, 304, 305, 306, 399):
        yield Case("redirections", f"{status}", to("http://fine.test:PPPPP/", f"{status} Moved"), ("outage",))
    for name, where in (
        ("empty", ""), ("space", " "), ("no scheme", "//fine.test/"), ("fragment", "#x"), ("broken", "http://[::1/"),
        ("port", "http://fine.test:99999/"), ("long", "/" + "x" * 60_000), ("long host", f"http://{'x' * 300}.test/"),
        ("dots", "http://../"), ("at", "http://a:b@fine.test:PPPPP/"),
    ):
        yield Case("redirections", name, to(where))
    yield Case("redirections", "unknown name", to("http://unknown.test/"), (GONE,))
    yield Case("redirections", "two places", to("/a", "302 Found", "Location: /b"))
    yield Case("redirections", "no place", http(b"", "text/html", "302 Found"), ("outage",))
    for after in ("0", "0.5", "3", "60"):
        for form in (
            '<meta http-equiv="refresh" content="{0};url={1}">',
            "<META HTTP-EQUIV=refresh CONTENT='{0}; URL=\"{1}\"'>",
        ):
            refresh = form.format(after, "http://fine.test:PPPPP/")
            yield Case("meta refresh", f"{after} {form[:6]}", html(refresh), (OK,) if after != "60" else ())
    yield Case("meta refresh", "to itself", html('<meta http-equiv=refresh content="0;url=/?a">'), ("blocked", NO))
    yield Case("meta refresh", "to metadata", html('<meta http-equiv=refresh content="0;url=http://metadata.test/">'), blocked)
    yield Case("meta refresh", "to a file", html('<meta http-equiv=refresh content="0;url=file:///etc/passwd">'), blocked)
    yield Case("cookies", "wall", to("/", "302 Found", "Set-Cookie: seen=1"), blocked)
    yield Case(
        "cookies", "many", http(PAGE, "text/html", "200 OK", None, *(f"Set-Cookie: c{n}={'x' * 20}" for n in range(1_000))),
        (OK,),
    )
    for cookie in (
        "=", ";;;", "a=b; Domain=.test", "a=b; Max-Age=-1e9", "\x01=\x02", "a" * 4_000, "__Host-x=1; Domain=other.test",
    ):
        yield Case("cookies", cookie[:20], http(PAGE, "text/html", "200 OK", None, f"Set-Cookie: {cookie}"))


def headers() -> Iterator[Case]:
    for size in (1_000, 60_000, 200_000, 5_000_000):
        yield Case("headers", f"one of {size}", http(PAGE, "text/html", "200 OK", None, "X: " + "y" * size))
    for count in (100, 1_000, 20_000):
        yield Case("headers", f"{count} of them", http(PAGE, "text/html", "200 OK", None, *(f"X-{n}: y" for n in range(count))))
    for line in (
        "no colon", ": no name", "X\x00Y: z", "X: a\x00b", " folded: x", "X: \xff\xfe", "X : space", "X-Ünder: y",
        "Transfer-Encoding: x", "Content-Type: image/png", "Upgrade: h2c", "Connection: upgrade",
    ):
        yield Case("headers", repr(line), http(PAGE, "text/html", "200 OK", None, line))
    for status in (
        "", "200", "0 OK", "-1 OK", "999 Odd", "20 OK", "2000 OK", "abc", "200 " + "x" * 9_000, "200 \x00", "101 Switch",
        "100 Go",
    ):
        yield Case("headers", f"status {status[:9]!r}", http(PAGE, "text/html", status))
    for start in (
        b"HTTP/0.9 200 OK\r\n\r\n", b"HTTP/3.0 200 OK\r\n\r\n", b"ICY 200 OK\r\n\r\n", b"<html>no head</html>",
        b"SSH-2.0-x\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00", bytes(4_000),
        b"\r\n\r\n\r\n" + http(), b"HTTP/1.1 200 OK\n\n" + PAGE,
    ):
        yield Case("headers", f"start {start[:12]!r}", start if len(start) > 4_000 else start + PAGE)
    for code in (201, 202, 203, 204, 205, 206, 207, 226):
        yield Case("statuses", str(code), http(PAGE if code not in (204, 205) else b"", "text/html", f"{code} x"))
    for code, wanted in {
        400: GONE, 401: "blocked", 402: "paywalled", 403: "blocked", 404: GONE, 405: "blocked", 406: "blocked", 407: "blocked",
        408: "timeout", 410: "gone", 415: NO, 418: "blocked", 421: "blocked", 429: "rate_limited", 451: "blocked",
        500: "outage", 501: "outage", 502: "outage", 503: "outage", 504: "timeout", 520: "outage", 521: "outage",
        522: "outage", 524: "timeout", 525: "outage", 599: "outage",
    }.items():
        yield Case("statuses", str(code), http(PAGE, "text/html", f"{code} x"), (wanted,))
    for after in ("0", "-1", "abc", "1e9", "9" * 400, "Wed, 21 Oct 2015 07:28:00 GMT", "Fri, 99 Zzz 9999"):
        yield Case(
            "statuses", f"429 after {after[:9]}", http(b"", "text/html", "429 x", None, f"Retry-After: {after}"),
            ("rate_limited", "timeout"),
        )


def pdf(pages: int = 1, password: str = "") -> bytes:
    writer, out = pypdf.PdfWriter(), io.BytesIO()
    name, table = pypdf.generic.NameObject, pypdf.generic.DictionaryObject
    font = table({name("/Type"): name("/Font"), name("/Subtype"): name("/Type1"), name("/BaseFont"): name("/Helvetica")})
    for number in range(pages):
        page, stream = writer.add_blank_page(600, 200), pypdf.generic.StreamObject()
        page[name("/Resources")] = table({name("/Font"): table({name("/F1"): font})})
        stream.set_data(
            f"BT /F1 12 Tf 20 100 Td (The tide of day {number} carved the flats and left herring in pools) Tj ET".encode()
        )
        page[name("/Contents")] = stream
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    writer.write(out)
    return out.getvalue()


def office(parts: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def files() -> Iterator[Case]:
    good, kind = pdf(3), "application/pdf"
    for said in (kind, "application/octet-stream", "text/html", "", "image/jpeg"):
        yield Case("PDF", f"good as {said}", http(good, said), (OK,) if said != "image/jpeg" else (NO,))
    for share in range(1, 20):
        yield Case("PDF", f"cut at {share * 5}%", http(good[: len(good) * share // 20], kind))
        yield Case(
            "PDF", f"holed at {share * 5}%",
            http(good[: len(good) * share // 20] + bytes(64) + good[len(good) * share // 20 + 64 :], kind),
        )
    yield Case("PDF", "encrypted", http(pdf(1, "secret"), kind), (NO,))
    yield Case("PDF", "2,000 pages", http(pdf(2_000), kind))
    loop = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[2 0 R]/Count 1>>endobj\ntrailer<</Root 1 0 R>>"
    yield Case("PDF", "pages in a circle", http(loop, kind))
    yield Case("PDF", "header alone", http(b"%PDF-1.7\n", kind), (NO,))
    packed_stream = zlib.compress(bytes(400 << 20), 9)
    blast = loop.replace(b"[2 0 R]", b"[3 0 R]").replace(
        b"trailer",
        b"3 0 obj<</Type/Page/Parent 2 0 R/Contents 4 0 R>>endobj\n4 0 obj<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream endobj\ntrailer"
        % (len(packed_stream), packed_stream),
    )
    yield Case("PDF", "stream of 400 MB", http(blast, kind), (NO,))
    word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    text = (
        b'<w:document xmlns:w="x"><w:body>'
        + b"<w:p><w:r><w:t>The tide left herring.</w:t></w:r></w:p>" * 20
        + b"</w:body></w:document>"
    )
    document = office({"word/document.xml": text})
    yield Case("Office", "good", http(document, word), (OK,))
    entities = b'<!DOCTYPE x [<!ENTITY a "tide"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>' + text
    for name, data in (
        ("entities", office({"word/document.xml": entities})),
        ("bomb", office({"word/document.xml": b"<w>" + b"a" * (200 << 20)})), ("nothing", office({})),
        ("as zip", office({"a.txt": b"x"})), ("old", b"\xd0\xcf\x11\xe0" + bytes(600)),
    ):
        yield Case("Office", name, http(data, word), (NO,))
    for share in range(1, 10):
        yield Case("Office", f"cut at {share * 10}%", http(document[: len(document) * share // 10], word), (NO,))
    draw, picture = random.Random(7), b"\x89PNG\r\n\x1a\n" + bytes(500)
    noise = bytes(draw.randrange(256) for _ in range(20_000))
    for said in (
        "text/html", "text/plain", "application/pdf", "application/json", "", "image/png", "video/mp4", "font/woff2", word,
        "a/b/c",
    ):
        yield Case("binary", f"noise as {said!r}", http(noise, said), (NO,))
        yield Case("binary", f"picture as {said!r}", http(picture, said), (NO,))
        yield Case("binary", f"nothing as {said!r}", http(b"", said), (NO,))
    for said, data in {
        "application/json": b'{"tide": "high"}' * 9, "text/csv": b"day,tide\n1,high\n",
        "application/rss+xml": b"<rss><item>The tide</item></rss>", "text/markdown": b"# Tide\n\nHigh.", "text/css": b"p {}",
        "application/xml": b"<x>tide</x>", "text/javascript": b"let tide = 1", "text/x-python": b"tide = 1",
        "application/yaml": b"tide: high",
    }.items():
        yield Case("text", said, http(data, said), (OK,))


def markup() -> Iterator[Case]:
    for tag in ("div", "table", "ul", "b", "a", "span", "blockquote", "font", "svg", "section"):
        for depth in (100, 600, 20_000):
            yield Case("deep nesting", f"{tag} {depth}", html(f"<{tag}>" * depth + "tide " * 100))
    many = {
        "100,000 links": "<a href='/x'>tide</a> " * 100_000, "a million <br>": "tide<br>" * 600_000, "a million <": "<" * 1_000_000,
        "entities": "&amp;" * 1_000_000, "attributes": f"<p {' '.join(f'a{n}=1' for n in range(200_000))}>tide", "table": "<table>" + "<tr><td>day<td>tide" * 100_000,
        "one attribute": f"<p title='{'x' * 5_000_000}'>tide</p>{LONG}", "one line": "tide " * 1_000_000, "blanks": " \n" * 2_000_000 + LONG, "open comment": f"{LONG}<!-- {'x' * 1_000_000}",
        "open script": f"{LONG}<script>{'x' * 1_000_000}", "brackets": "[" * 200_000 + LONG, "parentheses": "(" * 200_000 + LONG, "bare addresses": "https://a.test/(((((x " * 50_000,
        "combining": "a" + "\u0301" * 500_000, "wide": "\u3000" * 500_000 + LONG, "controls": "tide\x01\x02\x08 " * 50_000, "nulls": "tide\x00 " * 50_000, "right to left": "\u202etide " * 20_000,
        "surrogates": "\ud800tide " * 1_000, "one word": "a" * 3_000_000, "sup": "2<sup>31</sup>" * 100_000, "lists": "<ul><li><a href=/x>tide</a>" * 20_000, "headings": "<h1>tide</h1>" * 100_000,
        "forms": "<form><input><select><option>tide" * 20_000, "base": f"<base href='http://[::1/'>{LONG}", "pre": f"<pre>{'tide ' * 400_000}", "rows of bars": "<p>" + "| a | b |<br>" * 100_000,
    }  # fmt: skip
    for name, inside in many.items():
        yield Case("much of it", name, html(inside))
    odd = [
        "<frameset><frame src=/x></frameset>", "<plaintext>tide", "<template><p>tide</template>",
        "<noscript>tide</noscript>", "<math><mi>tide</math>", "<![CDATA[tide]]>", "<?php echo 1 ?>",
        "<svg><script>tide</script></svg>", "<textarea>tide", "<title>a</title><title>b</title>", "<p hidden>tide",
        "<p style='display:none'>tide", "</p></div></body>", "<html><html><html>", "<!doctype html>" * 100,
        "<a href=javascript:alert(1)>tide</a>", "<a href='data:text/html,x'>tide</a>", "<img alt='tide'>",
        "<object data=x>tide</object>", "<iframe srcdoc='<p>tide'></iframe>", "<style>p{}</style>", "<menu>tide</menu>",
        "<x-tide>tide</x-tide>", "<p>" + "\u200b" * 1000, "🐟" * 1000,
    ]
    for inside in odd:
        yield Case("odd markup", inside[:24], html(inside))
        yield Case("odd markup", f"{inside[:24]} and a page", html(inside.replace("<plaintext>", "") + LONG))
    yield Case("odd markup", "title of 1 MB", html(LONG, "x" * 1_000_000), (OK,))


WALLS = {
    "blocked": [
        "Just a moment... Verify you are human by completing the action below.",
        "Please enable JavaScript to view this page.", "You need to enable JavaScript to run this app.",
        "Checking your browser before accessing the site.", "Attention Required! Please complete the security check.",
        "Are you a robot?", "Our systems have detected unusual traffic from your network.",
        "Access denied. You do not have access to this page.",
        "Before you continue to Example. We use cookies and data to deliver our services. Accept all",
        "We value your privacy. We and our partners store cookies. Accept all cookies",
        "Please enable cookies and reload the page.", "Wir verwenden Cookies. Alle Cookies akzeptieren",
        "I'm not a robot reCAPTCHA", "Your request has been blocked.", "This site requires JavaScript.",
        "JavaScript is disabled in your browser.",
    ],
    "paywalled": [
        "Subscribe to continue reading.", "This article is for subscribers only. Already a subscriber? Sign in.",
        "You have no free articles left this month.", "Unlock this article with a subscription.",
        "To continue reading, create an account.",
    ],
    "not_found": [
        "404 Not Found", "Page not found. Sorry!", "The page you requested could not be found.", "Seite nicht gefunden",
        "Error 404", "Page introuvable",
    ],
}


def walls() -> Iterator[Case]:
    for status, texts in WALLS.items():
        for text in texts:
            yield Case("walls", text[:40], html(f"<h1>{text}</h1><p>Example Ltd.</p>", text[:30]), (status,))
            yield Case(
                "walls' words in a page", text[:40], html(f"{LONG}<p>{text.replace('404', 'four-o-four')}</p>"),
                (OK,) if status != "paywalled" else (),
            )
    for script in (
        "<div id=root></div><script src=/app.js></script>", "<app-root></app-root><script>boot()</script>",
        "<noscript>Enable JavaScript.</noscript><script></script>", "<script>location='/x'</script>",
    ):
        yield Case("scripts alone", script[:24], html(script), (NO, "blocked"))


def robots() -> Iterator[Case]:
    def rules(text: str | bytes, status: str = "200 OK", *more: str) -> bytes:
        return http(text.encode() if isinstance(text, str) else text, "text/plain", status, None, *more)

    everything = "User-agent: *\nDisallow: /"
    forms = {
        "no": everything, "no, CR": everything.replace("\n", "\r"), "no, CRLF": everything.replace("\n", "\r\n"), "no, BOM": f"\ufeff{everything}", "no, caps": everything.upper(),
        "no, by name": "User-agent: sanderling\nDisallow: /", "no, wildcard": "User-agent: *\nDisallow: /*", "no, gzip": "", "no, 500": "", "no, 503": "",
        "yes": "User-agent: *\nDisallow:", "yes, other": "User-agent: other\nDisallow: /", "yes, allowed": f"{everything}\nAllow: /$", "yes, 403": "", "yes, 404": "", "yes, html": PAGE.decode(), "yes, empty": "",
        "yes, noise": "\x00\x01" * 500, "yes, rubbish": "tide: herring\n" * 1000, "yes, delay": "User-agent: *\nCrawl-delay: 0.1", "yes, odd delay": "User-agent: *\nCrawl-delay: soon", "yes, minus": "User-agent: *\nCrawl-delay: -5",
        "yes, 3 MB": "User-agent: x\nDisallow: /y\n" * 120_000, "yes, long line": "Disallow: " + "x" * 400_000, "yes, stars": "User-agent: *\nDisallow: /" + "*a" * 2_000 + "b", "yes, circle": "", "yes, no type": "",
    }  # fmt: skip
    for name, text in forms.items():
        said = {
            "no, gzip": rules(gzip.compress(everything.encode()), "200 OK", "Content-Encoding: gzip"),
            "yes, circle": rules("", "302 x", "Location: /robots.txt"), "yes, no type": http(b"", ""),
        }.get(name)
        status = name.rpartition(" ")[2] if name[-3:].isdigit() else "200"
        wanted = "blocked" if name.startswith("no") else OK
        yield Case("robots.txt", name, http(), (wanted,), said or rules(text, f"{status} x"))
    yield Case("robots.txt", "to metadata", http(), ("blocked",), rules("", "302 x", "Location: http://metadata.test/"))
    yield Case("robots.txt", "closed", http(), (OK,), b"")


def cases() -> list[Case]:
    """All of them, in an order that mixes the kinds."""
    made = [
        *wrong_lengths(), *endless(), *packed(), *charsets(), *redirects(), *headers(), *files(), *markup(), *walls(),
        *robots(),
    ]
    made += [Case("plain pages", str(n), http(PAGE.replace(b"herring", b"herring %d" % n)), (OK,)) for n in range(40)]
    random.Random(1).shuffle(made)
    return made
