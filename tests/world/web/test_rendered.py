"""Pages that scripts make, by a real chromium where there is one; what they may not reach."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loopback import Quiet, listening
from made_files import pdf

from sanderling.core.types import ToolStatus
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.live import LiveWeb
from sanderling.world.web.public import Resolve
from sanderling.world.web.rendered import _BROWSERS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not any(map(shutil.which, _BROWSERS)), reason="there is no chromium"),
]
WORDS = "The tide left herring in the pools and the keeper counted them all until the evening of that day. " * 4
PAGES = {
    "/made": f"<title>x</title><div id=a></div><script>a.innerText = '{WORDS}'; document.title = 'Made'</script>",
    "/moved": "<script>location = '/made'</script>",
    "/late": f"<div id=a></div><script>fetch('/data').then(r => r.text()).then(t => a.innerText = t + '{WORDS}')</script>",
    "/spy": f"""<p>{WORDS}</p><div id=a></div><script>
        for (const url of ['http://127.0.0.1:PORT/secret', 'http://inner.test:PORT/secret', 'http://169.254.169.254/'])
            fetch(url).then(r => r.text()).then(text => a.innerText += text)
        </script><img src='http://127.0.0.1:PORT/secret'><iframe src='http://localhost:PORT/secret'></iframe>""",
    "/endless": "<script>while (true) {}</script>",
    "/data": "Data. ",
    "/secret": "SECRET",
    "/gone": "nothing",
    "/asks": f"<script>alert('hello')</script><p>{WORDS}</p>",
    "/moved-to-paper": "<script>location = '/paper'</script>",
    "/to-inner": "<script>location = 'https://inner.test/'</script>",
}
OTHERS: dict[str, Callable[[Quiet], None]] = {
    "/paper": lambda it: it.say(pdf("The tide of 1873 was high."), Content_Type="application/pdf"),
    "/zip": lambda it: it.say(b"PK\x03\x04", Content_Type="application/zip"),
    "/hop": lambda it: it.say(b"", 302, Location="http://169.254.169.254/"),
    "/hop-apart": lambda it: it.say(b"", 302, Location="https://169.254.169.254/"),
    "/nobody": lambda it: it.say(b"", 302, Location="https://site.test:1/"),
    "/empty-500": lambda it: it.say(b"", 500),
}


@pytest.fixture
def site() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(Quiet):
        def do_GET(self) -> None:
            asked.append(self.headers["Host"].partition(":")[0] + self.path)
            if self.path in OTHERS:
                OTHERS[self.path](self)
                return
            page = PAGES.get(self.path, "").replace("PORT", self.headers["Host"].partition(":")[2])
            status = {"/gone": 410, "/robots.txt": 404}.get(self.path, 200)
            self.say(page.encode(), status, Content_Type="text/html; charset=utf-8", Access_Control_Allow_Origin="*")

    with listening(Handler) as url:
        yield url.replace("127.0.0.1", "site.test"), asked


@pytest.fixture(autouse=True)
def own_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where profiles are made, since other tests have browsers, too; a short path, as sockets in it need."""
    with tempfile.TemporaryDirectory(prefix="r-") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        yield


async def look_up(host: str) -> list[str]:
    return ["127.0.0.1"]


def web(look_up: Resolve = look_up, **settings: object) -> LiveWeb:
    plain = {"urls": {"serper": "http://127.0.0.1:1"}, "readers": ["rendered"], "allowed_hosts": ["site.test"], "age_h": 0}
    return LiveWeb(LiveConfig.model_validate(plain | settings), {}, look_up=look_up)


async def test_scripts_are_run_and_where_they_lead_is_told(site: tuple[str, list[str]]) -> None:
    url, _ = site
    async with web() as live_web:
        made, moved, late = [await live_web.page(f"{url}/{path}") for path in ("made", "moved", "late")]
        assert (made.status, made.title) == (ToolStatus.OK, "Made") and "herring" in made.text
        assert moved.url == f"{url}/made" and "herring" in moved.text
        assert late.text.startswith("Data.")
        assert (await live_web.page(f"{url}/gone")).status is ToolStatus.GONE
    assert not left_over()


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("asks", "ok", "herring"), ("moved-to-paper", "ok", "1873"), ("zip", "not_text", ""), ("hop", "blocked", ""),
        ("hop-apart", "blocked", ""), ("to-inner", "blocked", ""), ("nobody", "outage", ""), ("empty-500", "outage", ""),
    ],
)  # fmt: skip
async def test_dialogs_files_and_what_is_not_there(site: tuple[str, list[str]], path: str, status: str, words: str) -> None:
    async with web(timeout_s=20) as live_web:
        reply = await live_web.page(f"{site[0]}/{path}")
    assert (reply.status, bool(reply.text), words in reply.text) == (status, bool(words), True)


async def test_an_unknown_name_is_no_page() -> None:
    async def unknown(host: str) -> list[str]:
        raise OSError("unknown")

    async with web(look_up=unknown) as live_web:
        assert (await live_web.page("http://nowhere.test/")).status is ToolStatus.NOT_FOUND


async def test_what_a_page_loads_is_checked_as_well(site: tuple[str, list[str]]) -> None:
    url, asked = site
    async with web() as live_web:
        reply = await live_web.page(f"{url}/spy")
        assert "SECRET" not in reply.text and "herring" in reply.text
        assert (await live_web.page(url.replace("site.test", "127.0.0.1") + "/secret")).status is ToolStatus.FORBIDDEN
    assert not [one for one in asked if one.endswith("/secret")]
    async with web(allowed_hosts=["site.test", "inner.test"]) as live_web:
        assert "SECRET" in (await live_web.page(f"{url}/spy")).text, "it is the check that kept them apart"
    assert "inner.test/secret" in asked and "127.0.0.1/secret" not in asked


async def test_a_script_that_never_ends_is_a_timeout_and_leaves_no_browser(site: tuple[str, list[str]]) -> None:
    url, _ = site
    async with web(timeout_s=6) as live_web:
        assert (await live_web.page(f"{url}/endless")).status is ToolStatus.TIMEOUT
    await asyncio.sleep(0.3)
    assert not left_over()


def left_over() -> list[str]:
    """What is left of browsers: processes and profiles."""
    here = tempfile.gettempdir()
    running = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()]
    return [*map(str, Path(here).glob("sanderling-page-*")), *(repr(line) for line in running if here.encode() in line)]
