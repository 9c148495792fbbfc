"""Search engines by what is sent and what comes back; recorded answers of a real SearXNG, and a real one where there is one."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest
from loopback import world_served

from sanderling.core.types import ToolStatus
from sanderling.world.contract import OutageError, Page, SearchReply
from sanderling.world.disk.building import build_world
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.live import LiveWeb

RECORDED = Path(__file__).parent / "searxng"
"""What SearXNG 2026.8 (9fea412) answered, with a world of ours behind its ``json_engine``."""
AT = "http://engine.test"


async def asked(
    engine: str,
    answer: httpx.Response | list[httpx.Response],
    as_of: date | None = None,
    query: str = "tidal flats",
    **settings: Any,
) -> tuple[list[httpx.Request], SearchReply]:
    """What an engine is sent, and what becomes of its answer."""
    answers, sent = answer if isinstance(answer, list) else [answer], list[httpx.Request]()

    def give(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return answers[min(len(sent), len(answers)) - 1]

    env = {f"{engine.upper()}_API_KEY": "sk-secret"}
    plain = {"engines": [engine], "urls": {engine: AT}, "pause_s": 0.0, "attempts": 1}
    async with LiveWeb(LiveConfig(**plain | settings), env, as_of=as_of, transport=httpx.MockTransport(give)) as web:
        return sent, await web.search(query, limit=30)


HIT = {"title": "Flats", "url": "https://a.test/x", "snippet": "The tide"}


@pytest.mark.parametrize(
    ("engine", "reply", "sent"),
    [
        ("serper", {"organic": [HIT | {"link": HIT["url"]}, "odd", {"title": "no link"}]}, {"q": "tidal flats", "num": 30}),
        ("searxng", {"results": [HIT | {"content": HIT["snippet"]}, 3]}, {"q": "tidal flats", "format": "json"}),
        (
            "brave",
            {"web": {"results": [HIT | {"description": "The <strong>tide</strong>", "page_age": "x"}]}},
            {"q": "tidal flats", "count": "20", "freshness": "1970-01-01to2024-03-05"},
        ),
        (
            "tavily",
            {"results": [HIT | {"content": HIT["snippet"], "raw_content": None}]},
            {"query": "tidal flats", "max_results": 20, "end_date": "2024-03-05"},
        ),
    ],
)
async def test_each_engine_is_spoken_to_in_its_own_way(engine: str, reply: Any, sent: dict[str, Any]) -> None:
    as_of = date(2024, 3, 5) if engine in ("brave", "tavily") else None
    requests, found = await asked(engine, httpx.Response(200, json=reply), as_of)
    assert [(hit.title, hit.url, hit.snippet) for hit in found.hits] == [tuple(HIT.values())]
    request = requests[0]
    said = json.loads(request.content) if request.method == "POST" else dict(request.url.params)
    assert said == sent
    keys = {"serper": "x-api-key", "brave": "x-subscription-token", "tavily": "authorization"}
    assert ("sk-secret" in request.headers.get(keys.get(engine, "none"), "")) is (engine in keys)


@pytest.mark.parametrize(("engine", "name", "most"), [("brave", "q", 50), ("tavily", "query", 80)])
async def test_longer_questions_than_an_engine_takes_are_cut(engine: str, name: str, most: int) -> None:
    requests, _ = await asked(engine, httpx.Response(200, json={}), query="tide " * 100)
    said = json.loads(requests[0].content) if requests[0].content else dict(requests[0].url.params)
    assert len(said[name].split()) == most


def recorded(name: str, status: int = 200) -> httpx.Response:
    kind = "application/json" if name.endswith(".json") else "text/html"
    return httpx.Response(status, content=(RECORDED / name).read_bytes(), headers={"content-type": kind})


async def test_what_a_real_searxng_answered() -> None:
    _, found = await asked("searxng", recorded("found.json"))
    assert [(hit.title, hit.url) for hit in found.hits] == [("Kent", "https://notes.example/kent.md")]
    assert "flows through Kendal" in found.hits[0].snippet
    assert (await asked("searxng", recorded("nothing.json"), age_h=0))[1].status is ToolStatus.EMPTY
    assert (await asked("searxng", recorded("unresponsive.json"), age_h=0))[1].status is ToolStatus.OUTAGE


@pytest.mark.parametrize("status", [403, 200])
async def test_json_that_is_switched_off_is_named_as_such(status: int) -> None:
    with pytest.raises(OutageError, match=r"add json to search\.formats in its settings\.yml"):
        await asked("searxng", recorded("forbidden.html", status))


# -- a real one ------------------------------------------------------------------------------------------------------------

CHECKOUT = os.environ.get("SANDERLING_SEARXNG", "")
SETTINGS = """
use_default_settings: {engines: {keep_only: []}}
search: {formats: %s}
server: {secret_key: for-a-test, bind_address: 127.0.0.1, port: %d, limiter: false}
engines:
  - {name: world, engine: json_engine, shortcut: w, categories: [general], enable_http: true, method: POST,
     search_url: "%s/search", request_body: '{{"q": "{query}", "num": 10}}', headers: {Content-Type: application/json},
     results_query: organic, url_query: link, title_query: title, content_query: snippet}
"""


def searxng(directory: Path, world: str, formats: str, port: int) -> subprocess.Popen[bytes]:
    """A SearXNG that searches a served world; it answers when this returns."""
    (directory / "settings.yml").write_text(SETTINGS % (formats, port, world))
    own = Path(CHECKOUT) / ".venv/bin/python"
    env = os.environ | {"SEARXNG_SETTINGS_PATH": str(directory / "settings.yml"), "PYTHONPATH": CHECKOUT}
    command, quiet = [str(own) if own.exists() else sys.executable, "-m", "searx.webapp"], subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=CHECKOUT, env=env, stdout=quiet, stderr=quiet)
    for _ in range(300):
        with suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1).close()
            return process
        time.sleep(0.1)
    process.kill()
    raise AssertionError("SearXNG does not start")


@pytest.mark.skipif(not CHECKOUT, reason="SANDERLING_SEARXNG names no checkout of SearXNG")
@pytest.mark.parametrize("formats", ["[html, json]", "[html]"])
async def test_a_real_searxng_searches_a_world(tmp_path: Path, formats: str, unused_tcp_port: int) -> None:
    text = "The Kent is a river that flows through Kendal to Morecambe Bay."
    build_world(tmp_path / "w", [Page(url="https://notes.example/kent.md", title="Kent", text=text)], name="w", source="test")
    with world_served(tmp_path / "w") as world:
        process = searxng(tmp_path, world, formats, unused_tcp_port)
        try:
            urls = {"searxng": f"http://127.0.0.1:{unused_tcp_port}", "jina": world}
            async with LiveWeb(LiveConfig(urls=urls), {}) as web:
                if "json" not in formats:
                    with pytest.raises(OutageError, match=r"search\.formats"):
                        await web.search("river Kendal")
                    return
                found = await web.search("river Kendal")
                assert [hit.title for hit in found.hits] == ["Kent"]
                assert "Morecambe" in (await web.visit(found.hits[0].url)).text
                assert (await web.search("zebras")).status is ToolStatus.EMPTY
        finally:
            process.kill()
            process.wait()
