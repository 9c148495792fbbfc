"""Requests that others' own programs were seen to send, header by header, and what those programs read out of the replies.

Taken down from real runs against ``sanderling world serve``; docs/worlds-serving.md has repositories, commits and functions.
A reading here follows what the program does with a reply: which status it wants, which fields it takes, what it does else.
"""

import json

import pytest

from sanderling.world.contract import answered

BEES = "https://b.example/x?y=1&z=a%2Fb"
KEY = "sk-others"


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


# Search-R1: the rollout's batch_search, which takes "result" without a look at the status


# LiteResearcher: search and visit of its RL tools
