"""Search and visit over the live web: against our own server of a world, and against services that fail in every known way."""

import asyncio
import datetime
import json
from collections.abc import Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile, ResultLayout
from sanderling.core.types import ToolStatus
from sanderling.serve.app import create_app
from sanderling.serve.limits import ServerSettings
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page, SearchReply, VisitReply, World
from sanderling.world.filters import filtered
from sanderling.world.guard import Blocklist
from sanderling.world.local import LocalWorld
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.live import LiveWeb
from sanderling.world.web.service import BROKEN_IN_A_ROW

FILM = "https://w.example/wiki/Alien_(film)"
BEES = "https://w.example/x?y=1&z=a%2Fb"
PAGES = [
    Page(url=FILM, title="Alien (film)", text=f"Alien is a film by Ridley Scott. See [bees]({BEES}).", date="1979-05-25"),
    Page(url=BEES, title="Bees", text="Bees make honey. A film about bees followed."),
    Page(url="https://z.example/维基", title="外星人", text="外星人 is a film."),
]
HERE = "http://127.0.0.1:8018"
Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(scope="module")
def world() -> LocalWorld:
    return LocalWorld.in_memory(PAGES, name="films")


def profile(layout: ResultLayout = ResultLayout.MARKDOWN) -> Profile:
    words = {"system_prompt": "{tools}", "force_hint": "Answer.", "malformed_hint": "{problem}"}
    return Profile(name="t", source="test", results=layout, **words)


@asynccontextmanager
async def tools_over(transport, key: str = "k", blocklist: Blocklist | None = None, reader=None, as_of=None, **settings):
    env = {"SERPER_API_KEY": key, "JINA_API_KEY": key}
    plain = {"urls": {"serper": HERE, "jina": HERE}, "pause_s": 0.0, "age_h": 0}
    told = LiveConfig(**plain | settings)
    async with LiveWeb(told, env, as_of=as_of, transport=transport) as web:
        yield world_tools(filtered(web, blocklist), profile(), reader)


def served(world, **settings) -> httpx.ASGITransport:
    return httpx.ASGITransport(create_app(world, ServerSettings(**settings)))


def service(handler: Handler) -> httpx.MockTransport:
    return httpx.MockTransport(handler)


# over our own server: the circle


async def test_masks_and_blocklists_hide_pages_links_and_where_redirections_lead(world):
    context = ToolContext(masked_urls=frozenset({"http://W.example/x?y=1&z=a/b"}))
    async with tools_over(served(world, token="k"), blocklist=Blocklist.parse("z.example")) as tools:
        found = await tools["search"]({"query": "film"}, context)
        assert found.provenance == (FILM,)
        pages = await tools["visit"]({"url": [BEES, "https://z.example/维基", FILM], "goal": ""}, context)
        assert pages.parts == (ToolStatus.NOT_FOUND, ToolStatus.NOT_FOUND, ToolStatus.OK)
        assert "See bees." in pages.text and "honey" not in pages.text
    moved = {"data": {"title": "Bees", "url": BEES, "content": "Bees make honey."}}
    async with tools_over(service(lambda _: httpx.Response(200, json=moved))) as tools:
        result = await tools["visit"]({"url": "https://short.example/1", "goal": ""}, context)
        assert result.status is ToolStatus.NOT_FOUND and "honey" not in result.text


async def test_a_past_day_is_asked_of_the_engine():
    asked: list[dict[str, object]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        return httpx.Response(200, json={"organic": []})

    async with tools_over(service(answer), as_of=datetime.date(2024, 3, 4)) as tools:
        await tools["search"]({"query": "film"}, ToolContext())
    assert asked == [{"q": "film", "num": 10, "tbs": "cdr:1,cd_max:3/4/2024"}]


class Failing(World):
    """A world in which every call fails alike."""

    name, fingerprint, page_count = "failing", "0" * 64, 1

    def __init__(self, status: ToolStatus) -> None:
        self.status = status

    async def search(self, query, **_) -> SearchReply:
        return SearchReply(query=query, hits=(), status=self.status)

    async def visit(self, url, goal="", **_) -> VisitReply:
        return VisitReply(url=url, title="", text="", status=self.status)


NOT_SERVED = (  # no status of a served world's page
    ToolStatus.OK, ToolStatus.BAD_ARGUMENTS, ToolStatus.UNKNOWN_TOOL, ToolStatus.FAILED, ToolStatus.FORBIDDEN, ToolStatus.HELD,
    ToolStatus.SPENT,
)  # fmt: skip
SERVED_STATUSES = [s for s in ToolStatus if s not in NOT_SERVED]


@pytest.mark.parametrize("status", [s for s in SERVED_STATUSES if s is not ToolStatus.EMPTY])
async def test_every_status_of_a_page_survives_the_way_through_http(status):
    async with tools_over(served(Failing(status), token="k"), attempts=1) as tools:
        assert (await tools["visit"]({"url": FILM, "goal": "x"}, ToolContext())).parts == (status,)


# services as they are


async def test_what_is_sent():
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"organic": [], "data": {}})

    async with tools_over(service(answer)) as tools:
        await tools["search"]({"query": "tidal flats"}, ToolContext())
        await tools["visit"]({"url": [FILM, "local://1", "nothing"], "goal": ""}, ToolContext())
    search, page = asked  # what is no web address is asked of nobody
    assert (search.method, str(search.url), search.headers["x-api-key"]) == ("POST", f"{HERE}/search", "k")
    assert json.loads(search.content) == {"q": "tidal flats", "num": 10}
    assert (page.method, str(page.url), page.headers["authorization"]) == ("POST", f"{HERE}/", "Bearer k")
    assert page.headers["accept"] == "application/json" and json.loads(page.content) == {"url": FILM}


async def test_busy_services_are_asked_again_and_then_told():
    answers = [429, 503, 200]

    def answer(_: httpx.Request) -> httpx.Response:
        status = answers.pop(0) if answers else 429
        return httpx.Response(status, json={"organic": [{"link": "https://a.example"}]}, headers={"retry-after": "0"})

    async with tools_over(service(answer)) as tools:
        for status in (ToolStatus.OK, ToolStatus.RATE_LIMITED):
            assert (await tools["search"]({"query": "a"}, ToolContext())).status is status
    assert answers == []


async def test_a_service_that_wants_to_be_left_alone_for_long_is_not_asked_again():
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(429, json={}, headers={"retry-after": "3600"})

    async with tools_over(service(answer)) as tools:
        result = await asyncio.wait_for(tools["search"]({"query": "a"}, ToolContext()), 10)
    assert (result.status, len(asked)) == (ToolStatus.RATE_LIMITED, 1)


@pytest.mark.parametrize("engine", ["serper", "searxng", "brave", "tavily"])
async def test_no_words_and_no_address_raise(engine: str):
    answer = service(lambda _: httpx.Response(200, json={"data": {}}))
    live = {"engines": [engine], "urls": {engine: HERE, "jina": HERE}}
    async with LiveWeb(LiveConfig(**live), {}, transport=answer) as web:
        for query in ("", " ", "\ud800 x", "\x00", "潮" * 100_000):
            found = await web.search(query)
            assert (found.query, found.status) == (query, ToolStatus.EMPTY)
        assert (await web.visit("http://a.example/\ud800")).status is ToolStatus.NOT_FOUND


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, {"message": "no such key"}, "SERPER_API_KEY"), (403, {"message": "Unauthorized."}, "Unauthorized"),
        (400, {"message": "Not enough credits"}, "no credit"), (404, None, "refused"), (None, None, "cannot be reached"),
    ],
)  # fmt: skip
async def test_a_refused_key_no_credit_and_nobody_there_are_outages(status, body, words):
    def answer(request: httpx.Request) -> httpx.Response:
        if status is None:
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(status, json=body)

    async with tools_over(service(answer), key="sk-secret") as tools:
        with pytest.raises(ToolOutageError, match=words) as told:
            await tools["search"]({"query": ["a", "b"]}, ToolContext())
    assert "sk-secret" not in str(told.value)


@pytest.mark.parametrize("answer", [httpx.Response(500, json={}), httpx.Response(200, content=b"<html>")])
async def test_one_broken_page_is_the_pages_and_a_row_of_them_the_services(answer):
    fresh = {"content": answer.content, "status_code": answer.status_code}
    async with tools_over(service(lambda _: httpx.Response(**fresh)), attempts=1) as tools:
        for _ in range(BROKEN_IN_A_ROW - 1):
            assert (await tools["visit"]({"url": FILM, "goal": ""}, ToolContext())).parts == (ToolStatus.OUTAGE,)
        with pytest.raises(ToolOutageError, match="broken"):
            await tools["visit"]({"url": FILM, "goal": ""}, ToolContext())


class Dripping(httpx.AsyncByteStream):
    """Each byte comes in time, and the reply never ends."""

    async def __aiter__(self):
        while True:
            yield b" "
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("drips", [True, False])
async def test_no_answer_in_time_is_a_timeout(drips):
    def answer(request: httpx.Request) -> httpx.Response:
        if drips:
            return httpx.Response(200, stream=Dripping())
        raise httpx.ReadTimeout("slow", request=request)

    async with tools_over(service(answer), timeout_s=0.1, attempts=1) as tools:
        result = await asyncio.wait_for(tools["search"]({"query": "a"}, ToolContext()), 30)
    assert result.status is ToolStatus.TIMEOUT


async def test_a_part_that_misses_the_deadline_costs_only_itself():
    class Slow(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if b"slow" in request.content:
                await asyncio.Event().wait()
            return httpx.Response(200, json={"organic": [{"title": "A", "link": "https://a.example"}]})

    async with tools_over(Slow()) as tools:
        result = await tools["search"]({"query": ["slow", "fast"]}, ToolContext(deadline_s=3.0))
    assert result.parts == (ToolStatus.TIMEOUT, ToolStatus.OK) and result.status is ToolStatus.OK


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "SERPER_API_KEY.*BRAVE_API_KEY.*SearXNG.*urls.searxng"), ({"engines": ["serper"]}, "serper wants a key"),
        ({"engines": ["searxng"]}, "searxng: nobody says where it is.*urls.searxng"),
        ({"urls": {"serper": HERE, "jina": "r.jina.ai"}, "readers": ["jina"]}, r"jina: r\.jina\.ai is no web address"),
        ({"engines": ["sarper"]}, "did you mean 'serper'"), ({"urls": {"serper": HERE, "jnia": HERE}}, "no service 'jnia'"),
        ({"urls": {"serper": HERE}, "readers": ["chrome"]}, "no page reader 'chrome'"),
        ({"allowed_hosts": ["wiki.local:8080"]}, "leave out scheme, port"),
        ({"allowed_hosts": ["http://127.0.0.1"]}, "more than a host"),
    ],
)  # fmt: skip
def test_settings_say_what_is_missing(settings, words):
    with pytest.raises((UserError, ValueError), match=words):
        LiveWeb(LiveConfig(**settings), {})
