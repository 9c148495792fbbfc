"""Several queries of one request go to the world together, and come back as if each had been asked alone."""

from sanderling.world.contract import World


def test_queries_of_one_request_are_asked_together(client_with, world):
    """In parts, so that none keeps a thread for long; and each is answered as it would be alone."""
    asked = []

    class Together(World):
        name, fingerprint, page_count = "together", "0" * 64, 1

        async def search_many(self, queries, **options):
            asked.append((len(queries), options["limit"]))
            return await world.search_many(queries, **options)

        async def visit(self, url, goal="", **options):
            return await world.visit(url, goal, **options)

    queries = [f"film {number}" for number in range(18)] + ["ripley"]
    client = client_with(Together())
    replies = client.post("/v1/search", json={"queries": queries}).json()["replies"]
    assert [reply["query"] for reply in replies] == queries and replies[-1]["hits"][0]["title"] == "Alien (film)"
    assert sorted(asked) == [(3, 10), (8, 10), (8, 10)]
    asked.clear()
    batch = [{"q": "film"}, {"q": "ripley", "num": 2, "page": 5}, {"q": "honey", "num": 1}, {"q": "film"}]
    together = client.post("/search", json=batch).json()
    assert sorted(asked) == [(1, 1), (2, 10)]
    assert together == [client.post("/search", json=one).json() for one in batch]
