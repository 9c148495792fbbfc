"""Requests that others' own programs were seen to send, header by header, and what those programs read out of the replies.

Taken down from real runs against ``sanderling world serve``; docs/worlds-serving.md has repositories, commits and functions.
A reading here follows what the program does with a reply: which status it wants, which fields it takes, what it does else.
"""

import json

import pytest
from serving import FailingWorld

from sanderling.core.types import ToolStatus
from sanderling.world.contract import answered

FILM = "https://en.example/wiki/Alien_(film)"
BEES = "https://b.example/x?y=1&z=a%2Fb"
KEY = "sk-others"
REQUESTS = {"User-Agent": "python-requests/2.34.2", "Accept-Encoding": "gzip, deflate, br", "Accept": "*/*"}
AIOHTTP = {"User-Agent": "Python/3.11 aiohttp/3.14.5", "Accept-Encoding": "gzip, deflate, br", "Accept": "*/*"}


@pytest.fixture
def keyed(client_with):
    """A server with a token: programs with fixed addresses reach it under others' names, and send their key."""
    return client_with(token=KEY)


# DR-Venus and Tongyi DeepResearch: a search over http.client, a page over requests


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("Ridley Scott film", {"location": "United States", "gl": "us", "hl": "en"}),
        ("外星人 film", {"location": "China", "gl": "cn", "hl": "zh-cn"}),
        ("!!!", {"location": "United States", "gl": "us", "hl": "en"}),
    ],
)
def test_search_of_dr_venus_and_tongyi(keyed, world, query, place):
    headers = {"Host": "google.serper.dev", "Accept-Encoding": "identity", "X-API-KEY": KEY, "Content-Type": "application/json"}
    reply = keyed.post("/search", content=json.dumps({"q": query} | place), headers=headers)
    listed = json.loads(reply.content.decode("utf-8"))["organic"]  # without the field it says that nothing was found
    assert [(page["title"], page["link"]) for page in listed] == [(h.title, h.url) for h in answered(world.search(query)).hits]
    assert all(isinstance(page.get("date", ""), str) and isinstance(page["snippet"], str) for page in listed)


@pytest.mark.parametrize("path", [f"/{FILM}", f"/{BEES}", "/https://zh.example/%E7%BB%B4%E5%9F%BA/%E5%A4%96%E6%98%9F%E4%BA%BA"])
def test_page_of_dr_venus_tongyi_and_literesearcher(keyed, path):
    reply = keyed.get(path, headers=REQUESTS | {"Host": "r.jina.ai", "Authorization": f"Bearer {KEY}"})
    assert reply.status_code == 200  # anything else is a page that could not be read
    assert reply.text.startswith("Title: ")  # text that begins with "<" would be taken for HTML
    assert reply.encoding == "utf-8"


def test_a_wrong_key_is_refused_and_told_from_a_missing_page(keyed):
    headers = REQUESTS | {"Host": "r.jina.ai"}
    assert keyed.get(f"/{FILM}", headers=headers | {"Authorization": "Bearer wrong"}).status_code == 401
    assert keyed.get("/https://no.example/x", headers=headers | {"Authorization": f"Bearer {KEY}"}).status_code == 404


# ASearcher: over aiohttp, which decodes %2F in a query string before it sends


def test_asearcher_online(keyed, world):
    headers = AIOHTTP | {"Host": "google.serper.dev", "X-API-KEY": KEY, "Content-Type": "application/json"}
    reply = keyed.post("/search", content=json.dumps({"q": "alien film", "num": 3}), headers=headers)
    assert reply.status_code == 200
    assert [page["link"] for page in reply.json()["organic"]] == [
        hit.url for hit in answered(world.search("alien film", limit=3)).hits
    ]
    page = AIOHTTP | {"Host": "r.jina.ai", "Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    assert f"URL Source: {BEES}\n" in keyed.get("/https://b.example/x?y=1&z=a/b", headers=page).text


def test_asearcher_local(client, world):
    body = {"queries": ["Ridley Scott film", "honey"], "topk": 3, "return_scores": False}
    lists = client.post("/retrieve", json=body, headers=AIOHTTP).json()["result"]
    for query, found in zip(body["queries"], lists, strict=True):
        assert [page["url"] for page in found] == [hit.url for hit in answered(world.search(query, limit=3)).hits]
        assert all(isinstance(page["contents"], str) for page in found)
    film, bees, missing = client.post("/access", json={"urls": [FILM, BEES, "https://no.example/"]}, headers=AIOHTTP).json()[
        "result"
    ]
    assert film["contents"] == world.page(FILM).text and bees["contents"] == world.page(BEES).text
    assert missing is None  # an empty page for it; an HTTP error it would ask ten times more, with pauses


# Search-R1: the rollout's batch_search, which takes "result" without a look at the status


def test_search_r1_rollout(client):
    body = {"queries": ["Ridley Scott film", "!!!"], "topk": 3, "return_scores": True}
    found, nothing = client.post("/retrieve", json=body, headers=REQUESTS | {"Content-Type": "application/json"}).json()[
        "result"
    ]
    title, _, text = found[0]["document"]["contents"].partition("\n")
    assert title == '"Alien (film)"' and text
    assert nothing == []
    many = client.post("/retrieve", json={"queries": ["film", "honey"] * 200, "topk": 5, "return_scores": True}).json()[
        "result"
    ]
    assert len(many) == 400


@pytest.mark.parametrize("status", [ToolStatus.TIMEOUT, ToolStatus.RATE_LIMITED])
def test_retrieve_has_a_result_whatever_the_world_does(client_with, status):
    client = client_with(FailingWorld(status))
    assert client.post("/retrieve", json={"queries": ["a"], "topk": 3, "return_scores": True}).json() == {"result": [[]]}
    assert client.post("/access", json={"urls": [FILM]}).json() == {"result": [None]}


# LiteResearcher: search and visit of its RL tools


def test_literesearcher_rl_search(client, world):
    headers = REQUESTS | {"Content-Type": "application/json"}
    body = {"query": "alien film", "search_type": "hybrid", "limit": 10}
    reply = client.post("/search", json=body, headers=headers).json()
    own = answered(world.search("alien film")).hits
    assert [(found["title"], found["link"], found["snippet"]) for found in reply["results"]] == [
        (hit.title, hit.url, hit.snippet) for hit in own
    ]
    assert reply["total"] == len(own) and isinstance(reply["search_time"], float)
    nothing = client.post("/search", json=body | {"query": "!!!"}, headers=headers).json()
    assert (nothing["results"], nothing["total"]) == ([], 0)


@pytest.mark.parametrize(
    ("status", "missed"), [(ToolStatus.NOT_FOUND, True), (ToolStatus.GONE, True), (ToolStatus.TIMEOUT, False)]
)
def test_literesearcher_rl_visit_tells_a_miss_from_a_broken_service(client, client_with, status, missed):
    headers = REQUESTS | {"Content-Type": "application/json", "Accept": "application/json"}
    served = client.post("/query", json={"url": FILM, "question": "who directed it"}, headers=headers).json()
    assert served["success"] is True and served["from_cache"] is True and served["error"] is None
    failed = client_with(FailingWorld(status)).post(
        "/query", json={"url": FILM, "question": "who directed it"}, headers=headers
    )
    assert failed.status_code == 200
    assert failed.json()["success"] is False and failed.json()["from_cache"] is False
    assert ("Cache miss" in failed.json()["error"]) is missed
    assert failed.json()["result"].startswith(f"The useful information in {FILM} for user goal who directed it as follows: \n")
