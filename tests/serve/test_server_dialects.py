"""Every dialect answers its own clients' bodies, to the field, with what the world itself says."""

from serving import FailingWorld

from sanderling.core.types import ToolStatus
from sanderling.serve.dialects import target_url
from sanderling.world.contract import SearchReply

FILM = "https://en.example/wiki/Alien_(film)"
SHIPS = "https://sea.example/ships"


def sentence(reply) -> str:
    assert set(reply.json()) == {"error"}
    text = reply.json()["error"]
    assert text.endswith(".") and "\n" not in text and "Traceback" not in text
    return text


# native


# Serper


# Jina Reader


def test_target_url_keeps_what_was_sent():
    assert target_url("/r/https://a.example/b%2Fc%20d", "q=%26&r=(1)") == "https://a.example/b%2Fc%20d?q=%26&r=(1)"
    assert target_url("/https%3A%2F%2Fa.example%2Fb%252Fc", "") == "https://a.example/b%2Fc"
    assert target_url("/https://a.example/r/jina/r/x", "") == "https://a.example/r/jina/r/x"


# LiteResearcher


def test_clients_that_know_no_parts_ask_for_none(client):
    """A fragment such as a link into a PDF has is dropped, as the live services do."""
    assert "Paragraph 0" in client.post("/", json={"url": f"{SHIPS}#page=40"}).text
    assert client.post("/web_parser", json={"url": f"{SHIPS}#page=40"}).json()["found"] is True
    assert client.post("/check_url", json={"url": f"{SHIPS}#page=40"}).json()["exists"] is True
    browsed = client.post("/query", json={"url": f"{SHIPS}#page=40", "goal": "year 1777"}).json()
    assert browsed["success"] is True and "1777" in browsed["result"]


# Search-R1


# what dialects share


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
