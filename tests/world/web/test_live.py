"""The live web as a whole: who is asked when somebody fails, what is kept for how long, what may be spent."""

import asyncio
import datetime
import random
import re
import sqlite3
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from loopback import Quiet, listening
from typer.testing import CliRunner

from sanderling.agent.opening import AgentConfig
from sanderling.cli.main import build_app
from sanderling.core.config import load_config
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import ToolStatus
from sanderling.data.questions import write_questions
from sanderling.policy.budget import Ledger
from sanderling.world.contract import OutageError, Page, VisitReply
from sanderling.world.disk.building import build_world
from sanderling.world.web.cache import WebCache
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.live import LiveWeb


class Services:
    """Every service at one address: each answers with a status, which may change; and a site."""

    def __init__(self) -> None:
        self.url, self.asked = "", Counter[str]()
        self.status = {"serper": 200, "searxng": 200, "jina": 200, "site": 200}
        self.text = "The tide left herring in the pools for the keeper to count."

    def answer(self, it: Quiet, name: str, said: Any) -> None:
        self.asked[name] += 1
        it.say(said if self.status[name] == 200 else {"message": "no"}, self.status[name])


@pytest.fixture
def services() -> Iterator[Services]:
    running = Services()

    class Handler(Quiet):
        def do_POST(self) -> None:
            asked = self.body()
            if "q" in asked:
                running.answer(self, "serper", {"organic": [{"title": "by serper", "link": "https://a.example/x"}]})
            else:
                running.answer(self, "jina", {"data": {"title": "by jina", "url": asked["url"], "content": running.text}})

        def do_GET(self) -> None:
            if self.path.startswith("/search"):
                running.answer(self, "searxng", {"results": [{"title": "by searxng", "url": "https://a.example/x"}]})
            elif self.path == "/robots.txt":
                self.say(b"", 404)
            else:
                running.answer(self, "site", f"by the site: {running.text}".encode())

    with listening(Handler) as running.url:
        yield running


def config(services: Services, **settings: Any) -> LiveConfig:
    urls = dict.fromkeys(("serper", "searxng", "jina"), services.url)
    plain = {"urls": urls, "allowed_hosts": ["127.0.0.1"], "pause_s": 0.0, "attempts": 1}
    both = {"engines": ["serper", "searxng"], "readers": ["direct", "jina"]}
    return LiveConfig(**plain | both | settings)


async def test_the_next_is_asked_where_one_fails_and_who_failed_is_left_alone(services: Services) -> None:
    async with LiveWeb(config(services), {}) as web:
        services.status |= {"serper": 401, "site": 403}
        for query in ("tides", "herring"):
            assert (await web.search(query)).hits[0].title == "by searxng"
        assert (await web.page(f"{services.url}/a")).title == "by jina"
        assert services.asked == {"serper": 1, "searxng": 2, "site": 1, "jina": 1}
        services.status |= {"site": 404}
        assert (await web.page(f"{services.url}/b")).status is ToolStatus.NOT_FOUND and services.asked["jina"] == 1
        services.status |= {"site": 403, "jina": 402}
        assert (await web.page(f"{services.url}/c")).status is ToolStatus.BLOCKED
        services.status |= {"searxng": 403}
        with pytest.raises(OutageError, match="refused the request"):
            await web.search("flats")


async def test_what_our_own_rules_forbid_nobody_is_asked_for(services: Services) -> None:
    async with LiveWeb(config(services, allowed_hosts=[]), {}) as web:
        assert (await web.page(f"{services.url}/a")).status is ToolStatus.FORBIDDEN
    assert not services.asked


async def test_a_check_for_robots_is_no_page_whoever_read_it(services: Services) -> None:
    services.text = "Just a moment... Verify you are human by completing the action below."
    async with LiveWeb(config(services, readers=["jina"]), {}) as web:
        reply = await web.visit(f"{services.url}/a")
    assert (reply.status, reply.text) == (ToolStatus.BLOCKED, "")


async def test_readers_and_engines_of_ones_own(services: Services, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from sanderling.world.contract import SearchHit, VisitReply\n"
        "from sanderling.world.web.engines import Engine, Request\n"
        "async def read(url):\n    return VisitReply(url, 'by me', 'The tide left herring in the pools.')\n"
        "mine = Engine(lambda asked: Request('/', {'q': asked.query, 'k': asked.key}),\n"
        "              lambda reply: [SearchHit('by me', 'https://a.example/', '')], key='MY_KEY')\n"
    )
    engine = f"{tmp_path / 'mine.py'}:mine"
    own = config(services, engines=[engine], readers=[f"{tmp_path / 'mine.py'}:read"], urls={engine: services.url})
    async with LiveWeb(own, {"MY_KEY": "k"}) as web:
        assert (await web.search("tides")).hits[0].title == "by me"
        assert (await web.page("https://a.example/")).title == "by me"
    (tmp_path / "odd.py").write_text(
        "from sanderling.world.web.engines import Engine, Request\n"
        "async def read(url):\n    return {}['page']\n"
        "odd = Engine(lambda asked: Request('/', {'q': 'x'}), lambda reply: reply['nowhere'])\n"
    )
    engine = f"{tmp_path / 'odd.py'}:odd"
    odd = config(services, engines=[engine], readers=[f"{tmp_path / 'odd.py'}:read"], urls={engine: services.url})
    async with LiveWeb(odd, {}) as web:
        with pytest.raises(OutageError, match=r"odd failed \(KeyError: 'nowhere'\)"):
            await web.search("tides")
        with pytest.raises(OutageError, match=r"read failed \(KeyError: 'page'\)"):
            await web.page("https://a.example/")
    with pytest.raises(UserError, match="nobody says where it is") as told:
        LiveWeb(LiveConfig(engines=(engine,)), {})
    advice = re.search("--set '(.*)', or in Engine", str(told.value))
    assert advice and load_config(AgentConfig, "", "a test", ["web=true", advice[1].replace("agent.", "", 1)]).live.urls[engine]
    with pytest.raises(UserError, match="no search engine"):
        LiveWeb(config(services, engines=[f"{tmp_path / 'mine.py'}:read"]), {})


# -- what is kept ----------------------------------------------------------------------------------------------------------


async def test_what_was_said_is_kept_for_its_time(services: Services, tmp_path: Path) -> None:
    kept = {"cache": tmp_path / "web.db"}
    for age, asked in ((24, 1), (24, 1), (0, 2)):
        async with LiveWeb(config(services, age_h=age, **kept), {}) as web:
            assert (await web.search("tides")).hits and (await web.page(f"{services.url}/a")).text
        assert services.asked == {"serper": asked, "site": asked}
    services.status |= {"site": 500, "serper": 500}
    async with LiveWeb(config(services, engines=["serper"], readers=["direct"], **kept), {}) as web:
        assert (await web.page(f"{services.url}/b")).status is ToolStatus.OUTAGE
        services.status |= {"site": 200}
        assert (await web.page(f"{services.url}/b")).status is ToolStatus.OK, "a failure is not kept"
    assert (tmp_path / "web.db").stat().st_mode & 0o77 == 0


def test_the_web_of_a_past_day_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = WebCache(tmp_path / "web.db")
    day, now = datetime.date(2026, 3, 5), [0.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    noon = datetime.datetime(2026, 3, 5, 12).timestamp()
    for hours, text in ((-48, "old"), (0, "of the day"), (1, "of the day"), (48, "later"), (49, "of the day")):
        now[0] = noon + hours * 3600
        cache.put("a", VisitReply("a", "", text))
    now[0] = noon + 100 * 3600

    def read(age_h: float, as_of: datetime.date | None = None) -> str:
        found = cache.get(VisitReply, "a", age_h, as_of)
        return found.text if found else ""

    assert read(1) == "" and read(60) == "of the day"
    assert read(0, day) == "of the day" and read(0, day - datetime.timedelta(2)) == "old"
    assert read(0, day - datetime.timedelta(9)) == ""


def test_what_came_first_makes_room(tmp_path: Path) -> None:
    cache, draw = WebCache(tmp_path / "web.db", most_mb=2), random.Random(3)
    for n in range(200):
        cache.put(str(n), VisitReply(str(n), "", draw.randbytes(20_000).hex()))
    assert (tmp_path / "web.db").stat().st_size < 3 << 20
    assert cache.get(VisitReply, "0", 24) is None and cache.get(VisitReply, "199", 24) is not None


async def test_what_is_damaged_in_the_cache_is_asked_for_anew(services: Services, tmp_path: Path) -> None:
    for _ in range(2):
        async with LiveWeb(config(services, cache=tmp_path / "web.db"), {}) as web:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert (await web.page(f"{services.url}/a")).status is ToolStatus.OK
        with closing(sqlite3.connect(tmp_path / "web.db")) as database, database:
            database.execute("UPDATE blob SET data = x'28b52ffd00112233445566'")
    assert services.asked["site"] == 2


WRITER = """
import sys
from pathlib import Path
from sanderling.world.contract import VisitReply
from sanderling.world.web.cache import WebCache
cache, name = WebCache(Path(sys.argv[1])), sys.argv[2]
for n in range(100_000):
    cache.put(f"{name} {n}", VisitReply(name, "", f"{n} " * 500))
    print(n, flush=True)
"""


def test_processes_share_it_and_a_killed_one_leaves_what_it_kept(tmp_path: Path) -> None:
    file = tmp_path / "web.db"
    command = [sys.executable, "-c", WRITER, str(file)]
    writers = {name: subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in ("a", "b")}
    last = {}
    for name, writer in writers.items():
        assert writer.stdout is not None
        for _ in range(40):
            last[name] = int(writer.stdout.readline())
    for writer in writers.values():
        writer.kill()
        writer.wait()
    cache = WebCache(file)
    for name, n in last.items():
        found = cache.get(VisitReply, f"{name} {n}", 1)
        assert found is not None and found.text == f"{n} " * 500


def test_a_file_that_is_no_cache_is_told(services: Services, tmp_path: Path) -> None:
    (tmp_path / "web.db").write_bytes(b"no database" * 1000)
    with pytest.raises(UserError, match=r"web\.db is damaged"):
        LiveWeb(config(services, cache=tmp_path / "web.db"), {})


# -- what may be spent -----------------------------------------------------------------------------------------------------


async def test_money_and_calls_that_are_spent_are_a_status(services: Services) -> None:
    paid = {"prices": {"serper": 0.3}, "max_cost": 0.6, "age_h": 24}
    async with LiveWeb(config(services, engines=["serper"], **paid), {}) as web:
        found = [(await web.search(query)).status for query in ("a", "b", "a", "c", "b")]
        assert found == [ToolStatus.OK, ToolStatus.OK, ToolStatus.OK, ToolStatus.SPENT, ToolStatus.OK]
        assert (await web.page(f"{services.url}/a")).status is ToolStatus.OK, "what is free goes on"
    async with LiveWeb(config(services, **paid), {}) as web:
        titles = [(await web.search(query, limit=3)).hits[0].title for query in ("a", "b", "c")]
        assert titles == ["by serper", "by serper", "by searxng"], "a free engine goes on where a paid one may not"
        services.status |= {"searxng": 403}
        with pytest.raises(OutageError):
            await web.search("d")
    services.status |= {"site": 403}
    async with LiveWeb(config(services, readers=["jina", "direct"], prices={"jina": 1}, max_cost=0), {}) as web:
        assert (await web.page(f"{services.url}/e")).status is ToolStatus.BLOCKED, "what the one says that could be asked"


async def test_the_runs_own_account_pays(services: Services) -> None:
    ledger = Ledger(cost=0.5)
    paid = config(services, engines=["serper"], prices={"serper": 0.3})
    async with LiveWeb(paid, {}, charge=ledger.pay) as web:
        services.status["serper"] = 401
        with pytest.raises(OutageError):
            await web.search("a")
        assert ledger.spent.cost == 0, "an outage costs nothing"
        services.status["serper"] = 200
        assert [(await web.search(query)).status for query in "ab"] == [ToolStatus.OK, ToolStatus.SPENT]
    assert ledger.spent.cost == 0.3


def test_what_a_run_may_spend_on_the_web_outlives_its_processes(services: Services, tmp_path: Path) -> None:
    build_world(tmp_path / "world", [Page(url="https://k.example/", title="K", text="Known.")], name="k", source="test")
    write_questions(tmp_path / "q.jsonl", [Question(id=str(n), text=f"Which tide is the {n}th?") for n in range(3)])
    live = {"urls.serper": services.url, "urls.jina": services.url, "prices.serper": "0.3", "max_cost": "0.6"}
    sets = [f"--set=live.{name}={value}" for name, value in live.items()]
    grow = ["synth", "grow", str(tmp_path / "world"), str(tmp_path / "q.jsonl"), "--web", *sets]
    for _ in range(2):
        done = CliRunner().invoke(build_app("synth"), grow)
        assert done.exit_code == 3 and "live.max_cost" in done.output and "larger limit" in done.output
    assert services.asked["serper"] == 2
    done = CliRunner().invoke(build_app("synth"), [*grow, "--set=live.max_cost=1"])
    assert done.exit_code == 0 and services.asked["serper"] == 3


def test_what_an_answer_may_take_holds_for_the_web_as_well(services: Services, tmp_path: Path) -> None:
    (tmp_path / "scripted.py").write_text(
        "def model(messages, key):\n"
        "    if key.turn < 3:\n"
        '        call = \'{"name": "search", "arguments": {"query": ["tide %d", "flats %d"]}}\' % (key.turn, key.turn)\n'
        "        return '<think>x</think><tool_call>' + call + '</tool_call>'\n"
        "    return '<think>x</think><answer>Kent</answer>'\n"
    )
    live = {"urls.serper": services.url, "urls.jina": services.url, "prices.serper": "0.15"}
    sets = [f"--set=agent.live.{name}={value}" for name, value in live.items()]
    model = ["--model", f"{tmp_path / 'scripted.py'}:model", "--no-save", "--web", "--spend", "0.40usd"]
    done = CliRunner().invoke(build_app("ask"), ["ask", "Which river?", *model, *sets])
    assert done.exit_code == 0 and "cost 0.3000" in done.output and services.asked["serper"] == 2


async def test_calls_in_a_minute_are_bounded(services: Services) -> None:
    async with LiveWeb(config(services, engines=["serper"], per_minute={"serper": 600}), {}) as web:
        began = time.monotonic()
        await asyncio.gather(*(web.search(query) for query in "abcd"))
    assert time.monotonic() - began >= 0.3
