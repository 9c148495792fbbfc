"""Every dialect answers its own clients' bodies, to the field, with what the world itself says."""

from dataclasses import replace
from urllib.parse import quote

import pytest

from sanderling.core.types import ToolStatus
from sanderling.serve.dialects import target_url
from sanderling.world.contract import Occasion, SearchReply, VisitReply, World, answered

FILM = "https://en.example/wiki/Alien_(film)"
SHIPS = "https://sea.example/ships"


class FailingWorld(World):
    """Answers every call with one status, or raises."""

    name, fingerprint, page_count = "failing", "0" * 64, 1

    def __init__(self, status=ToolStatus.OK, error=None):
        self.status, self.error = status, error

    async def search(self, query, **_):
        if self.error:
            raise self.error
        return SearchReply(query=query, hits=(), status=self.status)

    async def visit(self, url, goal="", **_):
        if self.error:
            raise self.error
        return VisitReply(url=url, title="", text="", status=self.status)


def sentence(reply) -> str:
    assert set(reply.json()) == {"error"}
    text = reply.json()["error"]
    assert text.endswith(".") and "\n" not in text and "Traceback" not in text
    return text


# native


def test_native_search_is_the_worlds_own(client, world):
    body = {"queries": ["ridley scott film", "honey", "..."], "limit": 2, "snippet_words": 6}
    replies = client.post("/v1/search", json=body).json()["replies"]
    for query, reply in zip(body["queries"], replies, strict=True):
        own = answered(world.search(query, limit=2, snippet_words=6))
        assert reply == {
            "query": query,
            "status": own.status.value,
            "latency_s": 0.0,
            "hits": [
                {"title": h.title, "url": h.url, "snippet": h.snippet, "date": h.date, "score": h.score} for h in own.hits
            ],
        }
    assert replies[0]["hits"][0]["url"] == FILM and replies[0]["hits"][0]["date"] == "1979-05-25"
    assert replies[2]["status"] == "empty" and replies[2]["hits"] == []


def test_native_visit_is_the_worlds_own_and_a_miss_is_no_error(client, world):
    body = {"urls": [SHIPS, "https://nowhere.example/"], "goal": "year 1777", "max_words": 40}
    reply = client.post("/v1/visit", json=body)
    own = answered(world.visit(SHIPS, "year 1777", max_words=40))
    assert reply.status_code == 200
    assert reply.json()["replies"] == [
        {"url": SHIPS, "title": "Ships", "text": own.text, "status": "ok", "latency_s": 0.0, "part": 0, "parts": own.parts},
        {
            "url": "https://nowhere.example/",
            "title": "",
            "text": "",
            "status": "not_found",
            "latency_s": 0.0,
            "part": 1,
            "parts": 1,
        },
    ]
    assert "1777" in own.text and own.parts > 1


def test_native_reads_a_long_page_on(client, world):
    body = {"urls": [f"{SHIPS}#page=2", f"{SHIPS}#page=9999"], "goal": "year 1777", "max_words": 40}
    second, past = client.post("/v1/visit", json=body).json()["replies"]
    own = answered(world.visit(f"{SHIPS}#page=2", max_words=40))
    assert (second["url"], second["text"], second["part"]) == (SHIPS, own.text, 2)
    assert (past["status"], past["part"], past["parts"]) == ("not_found", 9999, own.parts)


def test_native_masks_hide_a_page_from_search_and_visit(client):
    masked = {"masked": [FILM]}
    hits = client.post("/v1/search", json={"queries": ["film"]} | masked).json()["replies"][0]["hits"]
    assert hits and FILM not in [hit["url"] for hit in hits]
    assert client.post("/v1/visit", json={"urls": [FILM]} | masked).json()["replies"][0]["status"] == "not_found"


def test_native_tells_the_world_of_the_episode(client_with):
    seen = []

    class Watching(FailingWorld):
        async def search(self, query, **options):
            seen.append(options)
            return SearchReply(query=query, hits=())

    body = {"queries": ["a"], "episode_seed": -5, "occurrence": 2, "masked": ["https://m.example/"]}
    assert client_with(Watching()).post("/v1/search", json=body).status_code == 200
    assert seen == [
        {
            "limit": 10,
            "snippet_words": 30,
            "occasion": Occasion(frozenset({"https://m.example/"}), episode_seed=-5, occurrence=2),
        }
    ]


def test_native_info(client, world):
    assert client.get("/v1/info").json() == {"name": "small", "fingerprint": world.fingerprint, "page_count": 4}


# Serper


def test_serper_as_its_clients_ask(client, world):
    body = {"q": "alien film", "num": 2, "gl": "us", "hl": "en", "location": "United States"}
    reply = client.post("/search", json=body, headers={"X-API-KEY": "any", "Content-Type": "application/json"})
    own = answered(world.search("alien film", limit=2)).hits
    assert reply.status_code == 200
    assert reply.json()["organic"] == [
        {"title": own[0].title, "link": own[0].url, "snippet": own[0].snippet, "date": "1979-05-25", "position": 1},
        {"title": own[1].title, "link": own[1].url, "snippet": own[1].snippet, "position": 2},
    ]
    assert reply.json()["searchParameters"]["q"] == "alien film"


def test_serper_pages_continue_the_ranking(client, world):
    links = [hit.url for hit in answered(world.search("film", limit=3)).hits]
    paged = [client.post("/search", json={"q": "film", "num": 1, "page": page}).json()["organic"] for page in (1, 2, 3, 4)]
    assert [result["link"] for page in paged for result in page] == links
    assert paged[3] == []


def test_serper_batches_are_lists(client):
    replies = client.post("/search", json=[{"q": "honey"}, {"q": "ripley"}]).json()
    assert [reply["organic"][0]["title"] for reply in replies] == ["Bees", "Alien (film)"]
    assert "1 to 100" in sentence(client.post("/search", json=[{"q": "x"}] * 101))


# Jina Reader


@pytest.mark.parametrize(
    "path",
    [
        f"/r/{FILM}",
        f"/{FILM}",
        f"/jina/{FILM}",
        f"/jina/r/{FILM}",
        "/r/https://en.example/wiki/Alien_%28film%29",
        "/r/https:/en.example/wiki/Alien_(film)",
        "/r/http://EN.example:80/wiki/Alien_(film)",
        "/r/en.example/wiki/Alien_(film)",
        "/r/" + quote(FILM, safe=""),
        "/" + quote(FILM, safe=""),
    ],
)
def test_a_page_with_parentheses_is_found_however_it_is_written(client, path):
    reply = client.get(path)
    assert reply.status_code == 200 and reply.headers["content-type"].startswith("text/plain")
    title, _, source, _, head, text = reply.text.split("\n", 5)
    assert (title, source, head) == ("Title: Alien (film)", f"URL Source: {FILM}", "Markdown Content:")
    assert text.startswith("# Alien\n") and "Ridley Scott" in text


def test_query_strings_escapes_and_other_scripts_survive(client):
    for path in ("/r/https://b.example/x?y=1&z=a%2Fb", "/https://b.example/x?y=1&z=a%2Fb"):
        assert "URL Source: https://b.example/x?y=1&z=a%2Fb\n" in client.get(path).text
    assert "URL Source: https://zh.example/维基/外星人\n" in client.get("/r/https://zh.example/维基/外星人").text
    assert "URL Source: https://b.example/x?y=1&z=a%2Fb\n" in client.get("/r/https://b.example/x?y=1&z=a/b").text
    assert client.get("/r/https://b.example/x?y=1&z=b").status_code == 404


def test_target_url_keeps_what_was_sent():
    assert target_url("/r/https://a.example/b%2Fc%20d", "q=%26&r=(1)") == "https://a.example/b%2Fc%20d?q=%26&r=(1)"
    assert target_url("/https%3A%2F%2Fa.example%2Fb%252Fc", "") == "https://a.example/b%2Fc"
    assert target_url("/https://a.example/r/jina/r/x", "") == "https://a.example/r/jina/r/x"


def test_jina_gives_the_whole_page_and_json_on_request(client, world):
    whole = world.page(SHIPS).text
    assert client.get(f"/r/{SHIPS}").text.endswith(f"Markdown Content:\n{whole}\n")
    reply = client.get(f"/r/{SHIPS}", headers={"Accept": "application/json"}).json()
    assert reply["code"] == 200 and reply["data"] == {"title": "Ships", "description": "", "url": SHIPS, "content": whole}
    assert client.post("/", json={"url": f"{FILM}#top"}).text.startswith("Title: Alien (film)\n")


@pytest.mark.parametrize("path", ["/r/", "/r", "/", "/nothing/here", "/v1/nothing"])
def test_jina_takes_no_other_paths(client, path):
    reply = client.get(path)
    assert reply.status_code in (400, 404)
    sentence(reply)


# LiteResearcher


def test_literesearchers_search_as_its_rl_tool_asks(client, world):
    reply = client.post("/search", json={"query": "alien film", "search_type": "hybrid", "limit": 2}).json()
    own = answered(world.search("alien film", limit=2)).hits
    assert reply.pop("search_time") >= 0
    assert reply == {
        "results": [{"link": h.url, "title": h.title, "snippet": h.snippet, "score": h.score} for h in own],
        "total": 2,
        "embedding_time": 0.0,
        "milvus_time": 0.0,
        "search_type": "hybrid",
        "sparse_weight": 0.7,
        "dense_weight": 1.0,
        "server_id": "sanderling",
        "vector_dtype": "none",
        "index_type": "BM25",
    }


def test_literesearchers_batch_search_answers_each_query(client, world):
    queries = ["honey", "ripley", "ships"]
    reply = client.post("/batch_search", json={"queries": queries, "limit": 1, "search_type": "dense"}).json()
    assert reply["total_queries"] == 3 and reply["search_type"] == "dense"
    for query, result in zip(queries, reply["query_results"], strict=True):
        own = answered(world.search(query, limit=1)).hits[0]
        assert result == {
            "query": query,
            "results": [{"link": own.url, "title": own.title, "snippet": own.snippet, "score": own.score}],
            "total": 1,
        }


def test_literesearchers_page_routes(client, world):
    assert client.post("/check_url", json={"url": FILM}).json() == {"exists": True, "url": FILM}
    reply = client.post("/batch_check_url", json={"urls": [FILM, "https://no.example/"]}).json()
    assert reply.pop("query_time") >= 0
    assert reply == {"results": {FILM: True, "https://no.example/": False}, "total": 2, "found": 1}
    assert client.post("/web_parser", json={"url": SHIPS}).json() == {
        "found": True,
        "url": SHIPS,
        "title": "Ships",
        "text": world.page(SHIPS).text,
    }
    missing = {"found": False, "url": "https://no.example/", "title": "", "text": ""}
    assert client.post("/web_parser", json={"url": "https://no.example/"}).json() == missing


@pytest.mark.parametrize("name", ["goal", "question"])
def test_literesearchers_browse_service_gives_the_agents_own_text(client, name):
    reply = client.post("/query", json={"url": FILM, name: "Who plays Ripley?"}).json()
    assert reply["success"] is True and reply["error"] is None
    assert reply["result"].startswith(f"The useful information in {FILM} for user goal Who plays Ripley? as follows: \n\n")
    assert "Evidence in page: \n" in reply["result"] and "Sigourney Weaver" in reply["result"]
    missing = client.post("/query", json={"url": "https://no.example/", name: "x"})
    assert missing.status_code == 200 and missing.json()["success"] is False and missing.json()["result"]


def test_clients_that_know_no_parts_ask_for_none(client):
    """A fragment such as a link into a PDF has is dropped, as the live services do."""
    assert "Paragraph 0" in client.post("/", json={"url": f"{SHIPS}#page=40"}).text
    assert client.post("/web_parser", json={"url": f"{SHIPS}#page=40"}).json()["found"] is True
    assert client.post("/check_url", json={"url": f"{SHIPS}#page=40"}).json()["exists"] is True
    browsed = client.post("/query", json={"url": f"{SHIPS}#page=40", "goal": "year 1777"}).json()
    assert browsed["success"] is True and "1777" in browsed["result"]


# Search-R1


def test_search_r1_as_its_client_asks(client, world):
    body = {"queries": ["Who directed Alien?", "honey"], "topk": 2, "return_scores": True}
    result = client.post("/retrieve", json=body).json()["result"]
    for query, passages in zip(body["queries"], result, strict=True):
        own = answered(world.search(query, limit=2)).hits
        assert [passage["document"]["id"] for passage in passages] == [hit.url for hit in own]
        assert [passage["score"] for passage in passages] == [hit.score for hit in own]
    title, _, text = result[0][0]["document"]["contents"].partition("\n")  # as its client splits it
    assert title == '"Alien (film)"' and "Ridley Scott" in text


def test_search_r1_without_scores_gives_bare_documents_of_passage_length(client):
    (documents,) = client.post("/retrieve", json={"queries": ["ships in year 1777"]}).json()["result"]
    assert set(documents[0]) == {"id", "url", "contents"}
    assert "1777" in documents[0]["contents"] and len(documents[0]["contents"].split()) < 130


# what dialects share


def test_prefixes_name_a_dialect(client):
    assert "organic" in client.post("/serper/search", json={"q": "film"}).json()
    assert "results" in client.post("/literesearcher/search", json={"query": "film"}).json()
    assert "query" in sentence(client.post("/literesearcher/search", json={"q": "film"}))
    assert client.post("/search_r1/retrieve", json={"queries": ["film"]}).json()["result"]
    assert client.post("/native/v1/search", json={"queries": ["film"]}).json()["replies"]


def test_only_chosen_dialects_are_served(client_with):
    client = client_with(dialects=("serper",))
    assert "organic" in client.post("/search", json={"q": "film"}).json()
    for path in ("/retrieve", "/v1/search", "/mcp", "/query"):
        assert client.post(path, json={"queries": ["film"]}).status_code == 404
    assert "q" in sentence(client.post("/search", json={"query": "film"}))


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (ToolStatus.NOT_FOUND, 404),
        (ToolStatus.GONE, 410),
        (ToolStatus.TIMEOUT, 504),
        (ToolStatus.BLOCKED, 403),
        (ToolStatus.PAYWALLED, 402),
        (ToolStatus.NOT_TEXT, 415),
        (ToolStatus.RATE_LIMITED, 429),
        (ToolStatus.OUTAGE, 503),
    ],
)
def test_failures_of_the_world_are_those_of_the_web(client_with, status, code):
    client = client_with(FailingWorld(status))
    for reply in (
        client.get(f"/r/{FILM}"),
        client.post("/search", json={"q": "x"}),
        client.post("/search", json={"query": "x"}),
        client.post("/batch_search", json={"queries": ["x"]}),
    ):
        assert reply.status_code == code
        sentence(reply)
    assert client.post("/v1/search", json={"queries": ["x"]}).json()["replies"][0]["status"] == status.value


def test_one_fault_in_a_batch_costs_only_its_own_query(client_with, world):
    class Flaky(FailingWorld):
        async def search(self, query, **options):
            if query == "ripley":
                return SearchReply(query=query, hits=(), status=ToolStatus.TIMEOUT)
            return await world.search(query, **options)

    client = client_with(Flaky())
    batch = {"queries": ["ripley", "honey"]}
    first, second = client.post("/retrieve", json=batch).json()["result"]
    assert first == [] and second[0]["id"] == "https://b.example/x?y=1&z=a%2Fb"
    assert [r["total"] for r in client.post("/batch_search", json=batch).json()["query_results"]] == [0, 1]
    assert client.post("/batch_search", json={"queries": ["ripley"] * 2}).status_code == 504


def test_a_world_that_cannot_be_read_is_503_and_a_bug_is_500(client_with):
    for error, code in ((OSError("disk"), 503), (RuntimeError("secret"), 500)):
        client = client_with(FailingWorld(error=error))
        for reply in (client.post("/v1/search", json={"queries": ["x"]}), client.get(f"/r/{FILM}")):
            assert reply.status_code == code
            assert "disk" not in sentence(reply) and "secret" not in reply.text


def test_a_pace_holds_replies_back_and_changes_none(client, client_with, world, monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    class Slow(FailingWorld):
        async def search(self, query, **options):
            return replace(await world.search(query, **options), latency_s=90.0)

        async def visit(self, url, goal="", **options):
            return replace(await world.visit(url, goal, **options), latency_s=60.0)

    monkeypatch.setattr("sanderling.serve.calls.asyncio.sleep", sleep)
    paced = client_with(Slow(), pace=30.0)
    assert paced.get(f"/r/{FILM}").text == client.get(f"/r/{FILM}").text
    body = {"queries": ["ripley"], "topk": 3}
    assert paced.post("/retrieve", json=body).json() == client.post("/retrieve", json=body).json()
    assert [round(seconds) for seconds in slept if seconds > 0.5] == [
        2,
        3,
    ]  # a search's passages are no visits
    slept.clear()
    client_with(Slow()).get(f"/r/{FILM}")
    assert [seconds for seconds in slept if seconds > 0.5] == []
