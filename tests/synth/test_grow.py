"""Growth of a world: what questions find, what is left out and why, and that nothing is done twice."""

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import ToolStatus
from sanderling.data.questions import write_questions
from sanderling.runs.progress import Report
from sanderling.synth.grow import IN_WORLD, NOT_TEXT, SHORT, GrowthConfig, GrowthReport, grow, grow_world
from sanderling.world.contract import OutageError, Page
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_world
from sanderling.world.live import LiveWeb, WebSettings, web_settings
from sanderling.world.local import LocalWorld


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


class Far(LocalWorld):
    """A larger world; it counts what it is asked, finds a page that is gone, and is down for one query if told so."""

    def __init__(self, down: str = "") -> None:
        self.__dict__ |= vars(LocalWorld.in_memory(WEB, name="web"))
        self.down, self.searches, self.opened = down, list[str](), list[str]()

    async def search(self, query: str, **more):
        self.searches.append(query)
        if self.down and self.down in query:
            raise OutageError("down")
        reply = await super().search(query, **more)
        gone = replace(reply.hits[0], url="https://w.example/gone")
        return replace(reply, hits=(*reply.hits, gone))

    def page(self, url: str) -> Page | None:
        self.opened.append(url)
        return WEB[4].model_copy(update={"url": url}) if url.endswith("gone") and self.down == "noise" else super().page(url)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    build_world(tmp_path / "world", [KNOWN], name="small", source="test")
    write_questions(tmp_path / "q.jsonl", QUESTIONS)
    return tmp_path / "world"


def run(directory: Path, source: LocalWorld | LiveWeb, **more) -> GrowthReport:
    given = {"world": directory, "questions": directory.parent / "q.jsonl", "web": True, "least_chars": 100} | more
    return asyncio.run(grow(GrowthConfig.model_validate(given), source, Report(Console(quiet=True))))


def test_every_address_is_a_page_or_has_a_reason(directory):
    far = Far()
    report = run(directory, far)
    assert (report.questions, report.added, report.pages) == (3, 2, 2)
    assert report.left_out[IN_WORLD] >= 1 and report.left_out[SHORT] >= 1 and report.left_out[ToolStatus.NOT_FOUND.value] == 3
    grown = open_world(directory)
    assert grown.page_count == 3 and grown.page("https://w.example/tower") is not None
    assert KNOWN.url not in far.opened


def test_noise_is_no_page(directory):
    assert run(directory, Far("noise")).left_out[NOT_TEXT] > 0


def test_an_outage_is_taken_up_again_and_nothing_is_asked_twice(directory):
    first = run(directory, Far(down="lighthouse"))
    assert (first.outages, first.added) == (1, 1)
    again = Far()
    second = run(directory, again)
    assert second.outages == 0 and again.searches == [QUESTIONS[1].text] and second.added == 1
    idle = Far()
    third = run(directory, idle)
    assert idle.searches == [] and third.added == 0 and third.pages == 2
    with pytest.raises(UserError, match="other settings"):
        run(directory, Far(), results=3)


def test_the_live_web_is_asked_as_its_services_want_it(directory):
    def reply(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/search":
            links = ["https://w.example/a", "https://w.example/gone"]
            return httpx.Response(200, json={"organic": [{"title": "t", "link": link, "snippet": "s"} for link in links]})
        if b"gone" in request.content:
            return httpx.Response(404)
        return httpx.Response(200, json={"data": {"title": "A", "url": "https://w.example/b", "content": "# text " * 60}})

    settings = web_settings("https://search.example", "https://read.example", env={"SERPER_API_KEY": "x"})
    report = run(directory, LiveWeb(settings, transport=httpx.MockTransport(reply)))
    assert report.added == 1 and report.left_out[ToolStatus.NOT_FOUND.value] == 3
    grown = open_world(directory).page("https://w.example/b")
    assert grown is not None and grown.title == "A"


def test_hosts_of_ones_own_network_may_be_read(directory, monkeypatch):
    def opened(settings: WebSettings) -> LiveWeb:
        raise UserError(f"asked with {settings.allowed_hosts}")

    monkeypatch.setattr("sanderling.world.live.LiveWeb", opened)
    given = {"world": directory, "questions": directory.parent / "q.jsonl", "web": True, "search_url": "http://127.0.0.1:1"}
    config = GrowthConfig.model_validate(given | {"allowed_hosts": ["wiki.internal"]})
    with pytest.raises(UserError, match=r"asked with \('wiki.internal',\)"):
        asyncio.run(grow_world(config, progress=Report(Console(quiet=True))))


@pytest.mark.parametrize("wrong", [{}, {"web": True, "source": Path("x")}, {"source": Path("w")}])
def test_one_other_place_is_searched(wrong):
    with pytest.raises(ValueError, match=r"one place to search|grow out of itself"):
        GrowthConfig(world=Path("w"), questions=Path("q"), **wrong)
