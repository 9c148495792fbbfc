"""The live web under a guard: what is shown of results and whole pages is judged, redirections are followed."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sanderling.core.profiles import Profile, get_profile
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext
from sanderling.tools.page_reader import PageReader, Reading, ReadingLimits
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import VisitReply
from sanderling.world.filters import filtered
from sanderling.world.guard import Blocklist, Guard, GuardKind, GuardLine
from sanderling.world.live import LiveWeb, web_settings

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


class Service(BaseHTTPRequestHandler):
    """A site, and both services over it: an engine that lists it, and a reader that follows its redirections."""

    def do_GET(self) -> None:
        if self.path in MOVED:
            self.send_response(302)
            self.send_header("Location", MOVED[self.path])
            self.end_headers()
        else:
            self._say(SITE.get(self.path, "").encode(), "text/plain")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        here = f"http://{self.headers['host']}"
        if self.path == "/search":
            hits = [{"title": "Page", "link": here + path, "snippet": text[:80]} for path, text in SITE.items()]
            hits.insert(1, {"title": ASKED, "link": f"{here}/elsewhere", "snippet": "Orlo, says the key."})
            self._say(json.dumps({"organic": hits}).encode(), "application/json")
        else:
            with urllib.request.urlopen(asked["url"]) as page:
                told = {"url": page.url, "title": "Page", "content": page.read().decode()}
            self._say(json.dumps({"data": told}).encode(), "application/json")

    def _say(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture(scope="module")
def here() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


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
        ("/leak", GuardKind.ADDRESS, "/leak"),
        ("/short", GuardKind.ADDRESS, "/leak"),
        ("/hop", GuardKind.ADDRESS, "/leak"),
        ("/quiz", GuardKind.VERBATIM, "/quiz"),
        ("/to-quiz", GuardKind.VERBATIM, "/quiz"),
        ("/quiz#page=9", GuardKind.VERBATIM, "/quiz"),
    ],
)
async def test_a_leak_is_missing_wherever_a_redirection_began_and_no_model_reads_it(
    here: str, path: str, kind: GuardKind, url: str
) -> None:
    lines: list[GuardLine] = []
    reader = Reader()
    async with LiveWeb(web_settings(here, here, ["127.0.0.1"], env={"SERPER_API_KEY": "k"})) as web:
        visit = world_tools(filtered(web, guard=guard(lines)), PROFILE, reader)["visit"]
        result = await visit({"url": [here + path, f"{here}/to-tide"], "goal": "odes"}, CONTEXT)
    assert result.parts == (ToolStatus.NOT_FOUND, ToolStatus.OK)
    assert [page.url for page in reader.read_pages] == [f"{here}/to-tide"], "what is hidden is read by nobody"
    assert "Orlo" not in result.text and "quiz." not in result.text
    assert [(line.question, line.attempt, line.tool, line.kind, line.url) for line in lines] == [
        ("q1", 2, "visit", kind, here + url)
    ]
