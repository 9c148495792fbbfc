"""Pages that are read from here, over sites on loopback: what they become, what is not asked for, and who is spared."""

import asyncio
import datetime
import gzip
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from loopback import Quiet, listening
from made_files import pdf
from wall_texts import ABOUT, STANDING

from sanderling.core.types import ToolStatus
from sanderling.world.contract import OutageError
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.live import LiveWeb

LONG = "".join(
    f"<p>The tide of day {n} carved the flats and left herring in pools for the keeper to count.</p>" for n in range(20)
)
PAGE = f"<html><head><title>Tides</title></head><body><h1>Tides</h1>{LONG}</body></html>"


class Site:
    """A site by the answers of its paths: a body, or a function of the handler."""

    def __init__(self) -> None:
        self.url, self.asked, self.agents = "", list[str](), set[str]()
        self.pages: dict[str, bytes | str | Callable[[Quiet], None]] = {"/robots.txt": lambda it: it.say(b"", 404)}


@pytest.fixture
def site() -> Iterator[Site]:
    running = Site()

    class Handler(Quiet):
        def do_GET(self) -> None:
            running.asked.append(self.path)
            running.agents.add(self.headers["User-Agent"])
            found = running.pages.get(self.path, PAGE)
            if callable(found):
                found(self)
            else:
                self.say(found if isinstance(found, bytes) else found.encode(), Content_Type="text/html; charset=utf-8")

    with listening(Handler) as running.url:
        yield running


async def at_home(host: str) -> list[str]:
    """Every name is this machine's."""
    return ["127.0.0.1"]


def web(site: Site, *, look_up=at_home, **settings) -> LiveWeb:
    plain = {"urls": {"serper": site.url}, "allowed_hosts": ["127.0.0.1", "site.test"], "pause_s": 0.0, "age_h": 0}
    return LiveWeb(LiveConfig(**plain | settings), {}, look_up=look_up)


async def read(site: Site, path: str, **settings) -> tuple[ToolStatus, str]:
    async with web(site, **settings) as live_web:
        reply = await live_web.page(path if "://" in path else site.url + path)
        return reply.status, reply.text


async def test_pages_files_and_what_is_none(site: Site) -> None:
    def typed(kind: str, body: bytes, **headers: str) -> Callable[[Quiet], None]:
        return lambda it: it.say(body, Content_Type=kind, **headers)

    site.pages |= {
        "/paper": typed("application/pdf", pdf("The tide of 1873 was high.")),
        "/paper-as-html": typed("text/html", pdf("The tide of 1873 was high.")),
        "/notes.md": typed("text/plain", b"# Notes\n\nSee [flats](/flats)."),
        "/latin": typed("text/html; charset=latin-1", PAGE.replace("herring", "h\u00e9ring").encode("latin-1")),
        "/utf16": typed("text/plain; charset=utf-16", "Tides of herring.".encode("utf-16")),
        "/packed": typed("text/html", gzip.compress(PAGE.encode()), Content_Encoding="gzip"),
        "/bomb": typed("text/html", gzip.compress(b"<p>" + b"a " * (20 << 20)), Content_Encoding="gzip"),
        "/twice": typed("text/html", gzip.compress(gzip.compress(PAGE.encode())), Content_Encoding="gzip, gzip"),
        "/picture": typed("image/png", b"\x89PNG"), "/binary": typed("text/html", bytes(range(256)) * 20),
        "/deep": "<div>" * 5_000 + "x", "/empty": "",
    }  # fmt: skip
    async with web(site) as live_web:
        found = {path: await live_web.page(site.url + path) for path in [*site.pages, "/plain"] if path != "/robots.txt"}
    words = {
        "/plain": "herring", "/paper": "1873", "/paper-as-html": "1873", "/notes.md": f"[flats]({site.url}/flats)",
        "/latin": "héring", "/utf16": "Tides of herring.", "/packed": "herring",
    }  # fmt: skip
    for path, reply in found.items():
        wanted = ToolStatus.OK if path in words else ToolStatus.NOT_TEXT
        assert (reply.status, words.get(path, "") in reply.text) == (wanted, True), path
    assert found["/plain"].title == "Tides" and "sanderling" in str(site.agents)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("<title>Just a moment...</title><p>Verify you are human by completing the action below.</p>", ToolStatus.BLOCKED),
        ("<p>You need to enable JavaScript to run this app.</p>", ToolStatus.BLOCKED),
        ("<h1>Before you continue</h1><p>We use cookies and data to deliver our services.</p>", ToolStatus.BLOCKED),
        (f"<title>Tides</title><p>{'The tide rose. ' * 30}</p><p>Subscribe to continue reading.</p>", ToolStatus.PAYWALLED),
        ("<title>Page not found</title><p>Sorry! Try the search.</p>", ToolStatus.NOT_FOUND),
        (PAGE.replace("</body>", "<p>We use cookies. Accept all cookies.</p></body>"), ToolStatus.OK),
        (PAGE.replace("herring in pools", "a captcha, 404 not found, in pools"), ToolStatus.OK),
    ],
)
async def test_what_stands_before_a_page_is_no_page(site: Site, body: str, status: ToolStatus) -> None:
    site.pages["/page"] = body
    found, text = await read(site, "/page")
    assert found is status and bool(text) is (status is ToolStatus.OK)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (401, "blocked"), (402, "paywalled"), (403, "blocked"), (404, "not_found"), (410, "gone"), (429, "rate_limited"),
        (451, "blocked"), (500, "outage"), (504, "timeout"), (405, "blocked"), (406, "blocked"), (999, "blocked"),
    ],
)  # fmt: skip
async def test_what_a_site_refuses_has_a_status(site: Site, code: int, status: str) -> None:
    site.pages["/page"] = lambda it: it.say(PAGE.encode(), code, Content_Type="text/html")
    assert await read(site, "/page") == (status, "")


@pytest.mark.parametrize(("texts", "status"), [(STANDING, ToolStatus.BLOCKED), (ABOUT, ToolStatus.OK)])
async def test_checks_and_consent_are_told_from_pages_about_them(site: Site, texts: dict[str, str], status: ToolStatus) -> None:
    for name, text in texts.items():
        lines = re.sub(r"(?<!\n)\n(?!- |\n)", " ", text.strip()).split("\n")
        site.pages[f"/{quote(name)}"] = "".join(f"<p>{line}</p>" for line in lines)
    async with web(site) as live_web:
        found = {name: await live_web.page(f"{site.url}/{quote(name)}") for name in texts}
    assert {name: reply.status for name, reply in found.items()} == dict.fromkeys(texts, status)


def to(where: str, code: int = 302) -> Callable[[Quiet], None]:
    return lambda it: it.say(b"", code, Location=where)


async def test_each_redirection_is_checked_again(site: Site) -> None:
    site.pages |= {"/hop": to("/hop2"), "/hop2": to("/page", 308), "/loop": to("/loop"), "/file": to("file:///etc/passwd")}
    site.pages |= {
        "/refresh": '<meta http-equiv="refresh" content="0; url=/page">',
        "/content-first": '<meta content="0; url=&#39;/page&#39;" http-equiv=refresh>',
        "/ends": to("http://169.254.169.254/latest"),
    }
    site.pages |= {"/named": to("http://metadata.test/latest"), "/mapped": to("http://[::ffff:169.254.169.254]/")}
    site.pages |= {"/decimal": to("http://2852039166/")}

    async def look_up(host: str) -> list[str]:
        return ["169.254.169.254"] if host == "metadata.test" else ["127.0.0.1"]

    async with web(site, look_up=look_up) as live_web:
        for path in ("/hop", "/refresh", "/content-first"):
            assert (await live_web.page(site.url + path)).url == f"{site.url}/page"
        for path in ("/loop", "/file", "/ends", "/named", "/mapped", "/decimal"):
            reply = await live_web.page(site.url + path)
            assert (reply.status, reply.text) == (ToolStatus.BLOCKED, ""), path


async def test_the_address_that_was_checked_is_the_one_that_is_asked(site: Site) -> None:
    """A name that means another machine at each question cannot lead to one that was not checked."""
    answers: list[list[str]] = []
    port = site.url.rpartition(":")[2]
    hosts: list[str] = []
    site.pages["/page"] = lambda it: (hosts.append(it.headers["Host"]), it.say(PAGE.encode(), Content_Type="text/html"))[0]

    async def changing(host: str) -> list[str]:
        answers.append(["93.184.215.14"] if not answers else ["127.0.0.1"])
        return answers[-1]

    status, _ = await read(site, f"http://rebound.test:{port}/page", look_up=changing)
    assert status is ToolStatus.BLOCKED and site.asked == [] and len(answers) == 2
    status, _ = await read(site, f"http://site.test:{port}/page")
    assert status is ToolStatus.OK and hosts == [f"site.test:{port}"]


async def test_robots_txt_is_kept_to_and_asked_for_once(site: Site) -> None:
    site.pages["/robots.txt"] = b"User-agent: *\nDisallow: /private*.html$\nUser-agent: sanderling\nDisallow: /secret\n"
    site.pages["/open"] = to("/secret/a")
    async with web(site) as live_web:
        with pytest.warns(UserWarning, match=r"robots.txt of its site forbids it: agent\.live\.robots") as told:
            statuses = [
                (await live_web.page(site.url + path)).status for path in ("/secret/x", "/private1.html", "/open", "/tide")
            ]
    assert len(told) == 1
    assert statuses == [ToolStatus.BLOCKED, ToolStatus.OK, ToolStatus.BLOCKED, ToolStatus.OK]
    assert site.asked.count("/robots.txt") == 1 and "/secret/a" not in site.asked
    assert (await read(site, "/secret/x", robots=False))[0] is ToolStatus.OK
    site.pages["/robots.txt"] = lambda it: it.say(b"", 503)
    assert (await read(site, "/other"))[0] is ToolStatus.BLOCKED


async def test_of_a_robots_txt_that_is_too_long_the_beginning_is_kept_to(site: Site) -> None:
    rules = b"User-agent: *\nDisallow: /secret\n" + b"User-agent: other\nDisallow: /y\n" * 40_000
    for packed in (True, False):
        how = {"Content_Encoding": "gzip"} if packed else {}
        site.pages["/robots.txt"] = lambda it, how=how: it.say(gzip.compress(rules) if how else rules, **how)
        assert (await read(site, "/secret"))[0] is ToolStatus.BLOCKED
        assert (await read(site, "/page"))[0] is ToolStatus.OK


async def test_workers_import_nothing_of_where_they_are_started(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "protego.py").write_text("raise SystemExit")
    site.pages["/robots.txt"] = b"User-agent: *\nDisallow: /x\n"
    monkeypatch.chdir(tmp_path)
    assert (await read(site, "/page"))[0] is ToolStatus.OK


async def test_one_page_of_a_host_at_a_time_and_not_at_once(site: Site) -> None:
    began: list[float] = []
    under_way = [0, 0]

    def slow(it: Quiet) -> None:
        under_way[0] += 1
        under_way[1] = max(under_way)
        began.append(time.monotonic())
        time.sleep(0.05)
        under_way[0] -= 1
        it.say(PAGE.encode(), Content_Type="text/html")

    site.pages |= {f"/{n}": slow for n in range(3)}
    async with web(site, allowed_hosts=["127.0.0.1"], delay_s=0.2) as live_web:
        await asyncio.gather(*(live_web.page(f"{site.url}/{n}") for n in range(3)))
    assert under_way[1] == 1, "own hosts are asked without pauses, and one page at a time"


async def test_the_pause_that_a_site_wants_is_kept_wherever_its_readers_come_from(site: Site) -> None:
    port, asked = site.url.rpartition(":")[2], list[float]()
    site.pages["/robots.txt"] = b"User-agent: *\nCrawl-delay: 0.4"
    site.pages["/there"] = lambda it: (asked.append(time.monotonic()), it.say(PAGE.encode(), Content_Type="text/html"))[0]
    site.pages["/hop"] = to(f"http://site.test:{port}/there")
    async with web(site) as live_web:
        for url in (f"http://site.test:{port}/there", f"{site.url}/hop"):
            assert (await live_web.page(url)).url == f"http://site.test:{port}/there"
    assert asked[1] - asked[0] >= 0.4


async def test_a_busy_site_is_asked_again_when_it_says(site: Site) -> None:
    answers = [429, 200]

    def busy(it: Quiet) -> None:
        it.say(PAGE.encode(), answers.pop(0), Content_Type="text/html", Retry_After="0")

    site.pages["/page"] = busy
    assert (await read(site, "/page"))[0] is ToolStatus.OK and answers == []
    site.pages["/page"] = lambda it: it.say(b"", 429, Retry_After="3600")
    assert (await read(site, "/page"))[0] is ToolStatus.RATE_LIMITED


async def test_no_network_is_an_outage_and_an_unknown_name_is_no_page(site: Site) -> None:
    async def unknown(host: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    async def nobody(host: str) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "no resolver")

    async def unknown_but_one(host: str) -> list[str]:
        return await (at_home if host == "example.com" else unknown)(host)

    async with web(site, look_up=unknown_but_one) as live_web:
        for number in range(9):
            assert (await live_web.page(f"http://nowhere{number}.test/")).status is ToolStatus.NOT_FOUND
    for look_up, status in ((unknown, ToolStatus.NOT_FOUND), (nobody, ToolStatus.OUTAGE)):
        async with web(site, look_up=look_up) as live_web:
            for _ in range(3):
                assert (await live_web.page("http://site.test/")).status is status, "a host alone is not the network"
            with pytest.raises(OutageError, match="cannot be reached from here"):
                for name in "ab":
                    await live_web.page(f"http://{name}.test/")


async def test_a_robots_txt_that_leads_nowhere_says_nothing_of_the_page(site: Site) -> None:
    site.pages["/robots.txt"] = to("http://gone.test/robots.txt")

    async def look_up(host: str) -> list[str]:
        if host == "gone.test":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return ["127.0.0.1"]

    assert (await read(site, "/page", look_up=look_up))[0] is ToolStatus.OK


async def test_a_page_that_never_ends_is_a_timeout(site: Site) -> None:
    def drip(it: Quiet) -> None:
        it.send_response(200)
        it.end_headers()
        try:
            while True:
                it.wfile.write(b"<p>")
                time.sleep(0.02)
        except OSError:
            it.close_connection = True

    site.pages["/page"] = drip
    assert (await read(site, "/page", timeout_s=0.5))[0] is ToolStatus.TIMEOUT


async def test_certificates_are_those_of_the_name(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = certified("site.test", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    asked: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.sni_callback = lambda _, name, __: asked.append(name)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.decode().partition("Host: ")[2].split("\r\n")[0])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + PAGE.encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        async with web(site, allowed_hosts=["site.test", "other.test"], robots=False) as live_web:
            assert (await live_web.page(f"https://site.test:{port}/")).status is ToolStatus.OK
            assert asked == ["site.test", f"site.test:{port}"]
            assert (await live_web.page(f"https://other.test:{port}/")).status is ToolStatus.OUTAGE


def certified(name: str, place: Path) -> tuple[Path, Path]:
    """A key and a certificate for a name, which it signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]), datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False).sign(key, hashes.SHA256())
    pem, own = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (place / "key.pem").write_bytes(key.private_bytes(pem, own, serialization.NoEncryption()))
    (place / "certificate.pem").write_bytes(made.public_bytes(pem))
    return place / "key.pem", place / "certificate.pem"
