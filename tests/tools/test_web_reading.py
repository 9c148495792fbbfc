"""Pages of the live web that would harm: private addresses, bombs, endless pages; over a real page service on loopback."""

import asyncio
import gzip
import json
import socket
import tracemalloc
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest
from loopback import Quiet, listening

from sanderling.core.profiles import Profile, get_profile
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext
from sanderling.tools.page_reader import PageReader, Reading, ReadingLimits
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import VisitReply
from sanderling.world.filters import filtered
from sanderling.world.guard import Blocklist, Guard, GuardKind, GuardLine
from sanderling.world.web import live
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.live import LiveWeb
from sanderling.world.web.service import MOST_BYTES
from sanderling.world.web.walls import LONGEST_PAGE


class Service:
    """Answers as Jina Reader does: with the body and encoding set for an address, or with a page that says where it is."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.replies: dict[str, tuple[bytes, str]] = {}


def said(url: str, text: str) -> bytes:
    return json.dumps({"data": {"url": url, "title": "T", "content": text}}).encode()


@pytest.fixture
def service() -> Iterator[Service]:
    running = Service()

    class Handler(Quiet):
        def do_POST(self) -> None:
            url = self.body()["url"]
            running.asked.append(url)
            body, encoding = running.replies.get(url, (said(url, f"A page at {url}."), ""))
            with suppress(OSError):  # a client that has read enough hangs up
                self.say(body, **({"Content_Encoding": encoding} if encoding else {}))

    with listening(Handler) as running.url:
        yield running


def config(url: str, **more) -> LiveConfig:
    return LiveConfig(urls={"serper": url, "jina": url}, **more)


def web(service: Service, *allowed: str) -> LiveWeb:
    return LiveWeb(config(service.url, allowed_hosts=allowed), {})


PRIVATE = (
    "127.0.0.1 127.1 2130706433 0x7f000001 017700000001",
    "0177.0.0.1 0x7f.1 0 0.0.0.0 127.0.0.1.",
    "127%2e0.0.1 [::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1]",
    "[::127.0.0.1] [64:ff9b::7f00:1] [2002:7f00:1::] [fc00::1] [fd00:ec2::254]",
    "[fe80::1%25eth0] 169.254.169.254 192.0.0.192 [fec0::2] [::ffff:0:127.0.0.1]",
    "[64:ff9b:1:7f00:0:100::] [5f00::1] [ff0e::1] [2001:db8::1] 192.0.0.8",
    "0xa9fea9fe 100.100.100.200 168.63.129.16 224.0.0.1 user@127.0.0.1",
    "127.0.0.1\\@web.example １２７.0.0.1 127。0。0。1 ①②⑦.0.0.1 localhost",
    "LOCALHOST. a.localhost metadata.google.internal intranet printer.local",
    *(".".join(map(str, address)) for address in ((10, 1, 2, 3), (172, 16, 3, 4), (192, 168, 0, 1))),
)


async def test_no_private_address_reaches_the_service_in_any_spelling(service):
    async with web(service) as live_web:
        for host in " ".join(PRIVATE).split():
            reply = await live_web.visit(f"http://{host}/latest/meta-data")
            assert (reply.status, reply.text) == (ToolStatus.FORBIDDEN, ""), host
        for url in ("http:///x", "http://[::1/", "http://127.0.0.1%00.web.example/", "http://\t127.0.0.1/"):
            assert (await live_web.visit(url)).status is ToolStatus.FORBIDDEN, url
        assert service.asked == []
        public = [
            "https://web.example/a@127.0.0.1", "http://8.8.8.8/", "http://[2606:4700::1111]:8443/",
            "http://1e100.example/",
        ]  # fmt: skip
        for url in public:
            assert (await live_web.visit(url)).status is ToolStatus.OK, url
        assert service.asked == public


async def test_what_redirections_and_names_lead_to_counts(service, monkeypatch):
    hop, gone = "https://web.example/hop", "https://web.example/gone"
    service.replies = {hop: (said("http://169.254.169.254/latest", "secret"), ""), gone: (said("https://8.8.8.8/", "x"), "")}
    known = {"inside.web.test": "100.64.0.5", "both.web.test": "8.8.8.8 ::1", "outside.web.test": "8.8.8.8"}

    def look_up(host, port, *_, **__):
        if host not in known:
            return real(host, port)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in known[host].split()]

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with web(service) as live_web:
        assert [(await live_web.visit(url)).status for url in (hop, gone)] == [ToolStatus.BLOCKED, ToolStatus.OK]
        for name, status in (("inside", "forbidden"), ("both", "forbidden"), ("outside", "ok")):
            reply = await live_web.visit(f"https://{name}.web.test/")
            assert reply.status == status and ("A page" in reply.text) == (status == "ok")
    assert len(service.asked) == 3


async def test_a_host_is_allowed_by_its_name(service):
    async with web(service, "127.0.0.1", "Intranet", "[::1]") as live_web:
        for url in ("http://127.0.0.1:9/x", "http://intranet/x", "http://[::1]/"):
            assert (await live_web.visit(url)).status is ToolStatus.OK, url
        with pytest.warns(UserWarning, match=r"127\.0\.0\.2 is not read.*agent\.live\.allowed_hosts") as told:
            for url in ("http://127.0.0.2/", "http://127.0.0.3/"):
                assert (await live_web.visit(url)).status is ToolStatus.FORBIDDEN
        assert len(told) == 1


async def test_limits_count_what_comes_out_and_encodings_are_not_stacked(service):
    small, blank = said("", "Tides and herring."), b" " * (256 << 20)
    bomb = gzip.compress(b'{"data": {"content": "x' + blank + b'"}}', 1)
    replies = {
        "plain": (small, "", ToolStatus.OK),
        "packed": (gzip.compress(small), "gzip", ToolStatus.OK),
        "bomb": (bomb, "gzip", ToolStatus.NOT_TEXT),
        "bomb in gzip": (gzip.compress(bomb), "gzip, gzip", ToolStatus.NOT_TEXT),
        "stacked": (gzip.compress(gzip.compress(small)), "gzip, gzip", ToolStatus.NOT_TEXT),
        "other": (small, "br", ToolStatus.NOT_TEXT),
        "large": (said("", "x" * (MOST_BYTES + 1)), "", ToolStatus.NOT_TEXT),
    }
    del blank, bomb
    service.replies = {f"https://web.example/{name}": (body, encoding) for name, (body, encoding, _) in replies.items()}
    async with web(service) as live_web:
        tracemalloc.start()
        found = {name: (await live_web.visit(f"https://web.example/{name}")).status for name in replies}
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found == {name: status for name, (_, _, status) in replies.items()}
    assert peak < 12 * MOST_BYTES


async def test_a_long_page_is_cut_and_read_by_another_process(service, monkeypatch):
    url, read_here = "https://web.example/long", []
    service.replies = {url: (said(url, "Tides of the herring. " * 100_000), "")}
    real = live.read_page
    monkeypatch.setattr(live, "read_page", lambda *given: (read_here.append(len(given[0])), real(*given))[1])
    async with web(service) as live_web:
        page = await live_web.page(url)
        assert page.text.endswith(f"(Of this page only the first {LONGEST_PAGE:,} characters are read.)")
        assert len(page.text) < LONGEST_PAGE + 100
        reply, other = await asyncio.gather(live_web.visit(url, "herring"), live_web.visit("https://web.example/b"))
    assert reply.parts > 1 and "herring" in reply.text and other.status is ToolStatus.OK
    assert read_here and max(read_here) < 1_000


# -- The live web under a guard: what is shown of results and whole pages is judged, redirections are followed -------------

ASKED = "Which keeper of the northern lighthouse wrote forty odes to the tide before the great storm took his library?"
PROFILE: Profile = get_profile("tiny").model_copy(update={"results_per_query": 10})
CONTEXT = ToolContext(question="q1", attempt=2)
SITE = {
    "/tide": "Odes to the tide were written here.",
    "/leak": "nothing of the question",
    "/quiz": f"A quiz. {'Filler words. ' * 900} {ASKED} Orlo.",
    "/api/datasets/owner/quiz": "rows",
}
MOVED = {"/short": "/leak", "/hop": "/short", "/to-quiz": "/quiz", "/to-tide": "/tide"}


class Site(Quiet):
    """A site, and both services over it: an engine that lists it, and a reader that follows its redirections."""

    def do_GET(self) -> None:
        if self.path in MOVED:
            self.say(b"", 302, Location=MOVED[self.path])
        else:
            self.say(SITE.get(self.path, "").encode(), Content_Type="text/plain")

    def do_POST(self) -> None:
        asked = self.body()
        here = f"http://{self.headers['host']}"
        if self.path == "/search":
            hits = [{"title": "Page", "link": here + path, "snippet": text[:80]} for path, text in SITE.items()]
            hits.insert(1, {"title": ASKED, "link": f"{here}/elsewhere", "snippet": "Orlo, says the key."})
            self.say({"organic": hits})
        else:
            with urllib.request.urlopen(asked["url"]) as page:
                told = {"url": page.url, "title": "Page", "content": page.read().decode()}
            self.say({"data": told})


@pytest.fixture(scope="module")
def here() -> Iterator[str]:
    with listening(Site) as url:
        yield url


class Reader(PageReader):
    """A page reader that notes what it is given to read."""

    def __init__(self) -> None:
        super().__init__(None, limits=ReadingLimits(part_words=20_000))  # pyright: ignore[reportArgumentType]
        self.read_pages: list[VisitReply] = []

    async def read(self, page: VisitReply, goal: str, max_words: int) -> Reading:
        self.read_pages.append(page)
        return Reading(text=page.text[:100], summary=goal)


def guard(lines: list[GuardLine]) -> Guard:
    return Guard(Blocklist.parse("*/leak\n*/datasets/owner"), {"q1": ASKED}, (), lines.append)


@pytest.mark.parametrize(
    ("path", "kind", "url"),
    [
        ("/leak", GuardKind.ADDRESS, "/leak"), ("/short", GuardKind.ADDRESS, "/leak"),
        ("/hop", GuardKind.ADDRESS, "/leak"), ("/quiz", GuardKind.VERBATIM, "/quiz"),
        ("/to-quiz", GuardKind.VERBATIM, "/quiz"), ("/quiz#page=9", GuardKind.VERBATIM, "/quiz"),
    ],
)  # fmt: skip
async def test_a_leak_is_missing_wherever_a_redirection_began_and_no_model_reads_it(
    here: str, path: str, kind: GuardKind, url: str
) -> None:
    lines: list[GuardLine] = []
    reader = Reader()
    async with LiveWeb(config(here, allowed_hosts=["127.0.0.1"]), {"SERPER_API_KEY": "k"}) as web:
        visit = world_tools(filtered(web, guard=guard(lines)), PROFILE, reader)["visit"]
        result = await visit({"url": [here + path, f"{here}/to-tide"], "goal": "odes"}, CONTEXT)
    assert result.parts == (ToolStatus.NOT_FOUND, ToolStatus.OK)
    assert [page.url for page in reader.read_pages] == [f"{here}/to-tide"], "what is hidden is read by nobody"
    assert "Orlo" not in result.text and "quiz." not in result.text
    assert [(line.question, line.attempt, line.tool, line.kind, line.url) for line in lines] == [
        ("q1", 2, "visit", kind, here + url)
    ]
