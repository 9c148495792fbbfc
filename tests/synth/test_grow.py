"""Growth of a world: what questions find, what is left out and why, and that nothing is done twice."""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from scripted_clients import ScriptedClient

from sanderling.core.asking import AskingOutageError
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import ToolStatus
from sanderling.synth.grow import IN_WORLD, NOT_TEXT, SHORT, Finder, GrowthReport, GrowthSettings, grow
from sanderling.world.contract import Page, answered
from sanderling.world.disk.store import build_world, open_world
from sanderling.world.live import LiveWeb, web_settings
from sanderling.world.local import LocalWorld

SETTINGS = GrowthSettings(least_chars=100)


def page(name: str, words: str) -> Page:
    return Page(url=f"https://w.example/{name}", title=name, text=f"{words} " * 20)


KNOWN = page("known", "the herring of Orlo")
WEB = [
    KNOWN,
    page("herring", "herring in the harbour of Orlo"),
    page("tower", "the tower and lighthouse of Venn"),
    Page(url="https://w.example/short", title="short", text="herring, in short"),
    Page(url="https://w.example/noise", title="herring of noise", text="herring \x00\x01\x02\x03" * 60),
]
QUESTIONS = [
    Question(id="1", text="Where do the herring of Orlo go?"),
    Question(id="2", text="Who built the lighthouse of Venn?"),
    Question(id="3", text="Which herring are there in the harbour of Orlo?"),
]


@dataclass(frozen=True)
class CountingFinder(Finder):
    """Another world; it counts what it is asked, and is down for one query if told so."""

    world: LocalWorld = field(default_factory=lambda: LocalWorld.in_memory(WEB, name="web"))
    down: str = ""
    searches: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)

    async def search(self, query: str, limit: int) -> list[str]:
        self.searches.append(query)
        if self.down and self.down in query:
            raise AskingOutageError("down")
        return [*(await super().search(query, limit)), "https://w.example/gone"]

    async def open(self, url: str) -> Page | ToolStatus:
        self.opened.append(url)
        return await super().open(url)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    build_world(tmp_path / "world", [KNOWN], name="small", source="test")
    return tmp_path / "world"


def run(directory: Path, finder: CountingFinder, **more) -> GrowthReport:
    log = directory.parent / "growth.jsonl"
    return asyncio.run(grow(directory, QUESTIONS, finder, SETTINGS, log, **more))


def test_every_address_is_a_page_a_copy_or_has_a_reason(directory):
    finder = CountingFinder()
    report = run(directory, finder)
    assert (report.questions, report.queries, report.added, report.pages) == (3, 3, 2, 2)
    found = sum(
        len(reply.hits) + 1 for reply in answered(LocalWorld.in_memory(WEB, name="w").search_many([q.text for q in QUESTIONS]))
    )
    assert report.pages + report.repeated + sum(report.left_out.values()) == found
    assert report.left_out[IN_WORLD] >= 1 and report.left_out[SHORT] >= 1 and report.left_out[ToolStatus.NOT_FOUND.value] == 3
    grown = open_world(directory)
    assert grown.page_count == 3 and grown.page("https://w.example/tower") is not None
    assert KNOWN.url not in finder.opened


def test_noise_is_no_page(directory):
    class Noisy(CountingFinder):
        async def open(self, url: str) -> Page | ToolStatus:
            return WEB[4].model_copy(update={"url": url})

    assert run(directory, Noisy()).left_out[NOT_TEXT] > 0


def test_an_outage_is_taken_up_again_and_the_world_ends_as_it_would_have(directory, tmp_path):
    build_world(tmp_path / "other" / "world", [KNOWN], name="small", source="test")
    run(tmp_path / "other" / "world", CountingFinder())
    first = run(directory, CountingFinder(down="lighthouse"))
    assert (first.outages, first.added) == (1, 1)
    again = CountingFinder()
    second = run(directory, again)
    assert second.outages == 0 and again.searches == [QUESTIONS[1].text] and second.added == 1
    pages, others = (sorted(p.url for p in open_world(d).all_pages()) for d in (directory, tmp_path / "other" / "world"))
    assert pages == others


def test_run_again_it_asks_nothing_and_adds_nothing(directory):
    run(directory, CountingFinder())
    idle = CountingFinder()
    report = run(directory, idle)
    assert idle.searches == [] and report.added == 0 and report.pages == 2


def test_a_model_may_propose_queries(directory):
    client = ScriptedClient(lambda *_: json.dumps({"queries": ["tower Venn", "tower  Venn", 3, "", "harbour"]}))
    finder = CountingFinder()
    report = run(directory, finder, clients=[client])
    assert report.queries == 9 and finder.searches.count("tower Venn") == 3


def test_other_settings_do_not_go_on(directory):
    run(directory, CountingFinder())
    with pytest.raises(UserError, match="other settings"):
        log = directory.parent / "growth.jsonl"
        asyncio.run(grow(directory, QUESTIONS, CountingFinder(), GrowthSettings(results=3), log))


def test_the_live_web_is_asked_as_its_services_want_it():
    def reply(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/search":
            hits = [{"title": "t", "link": "https://w.example/a", "snippet": "s"}]
            return httpx.Response(200, json={"organic": hits})
        if b"gone" in request.content:
            return httpx.Response(404)
        if b"down" in request.content:
            return httpx.Response(401)
        return httpx.Response(200, json={"data": {"title": "A", "url": "https://w.example/b", "content": "# text"}})

    async def all_of_it() -> tuple[list[str], Page | ToolStatus, Page | ToolStatus]:
        settings = web_settings("https://search.example", "https://read.example", env={"SERPER_API_KEY": "x"})
        async with LiveWeb(settings, transport=httpx.MockTransport(reply)) as web:
            finder = Finder(web)
            with pytest.raises(AskingOutageError):
                await finder.open("https://w.example/down")
            urls = await finder.search("a", 5)
            return urls, await finder.open("https://w.example/a"), await finder.open("https://w.example/gone")

    urls, opened, gone = asyncio.run(all_of_it())
    assert urls == ["https://w.example/a"]
    assert (
        gone is not ToolStatus.OK
        and not isinstance(gone, Page)
        and opened == Page(url="https://w.example/b", title="A", text="# text", source="live web")
    )
