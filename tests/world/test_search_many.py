"""Many queries at once are each query alone, in every world; and an agent's call is one question to the ranker."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.core.profiles import get_profile
from sanderling.tools.contract import ToolContext
from sanderling.tools.world_tools import world_tools
from sanderling.world.blocked import Blocklist
from sanderling.world.contract import Occasion, Page, World, answered
from sanderling.world.dense.embedders import HashedEmbedder, Kind
from sanderling.world.dense.index import HybridRanker, open_dense
from sanderling.world.dense.vectors import embed_world, settings_for
from sanderling.world.disk.store import build_world, open_world
from sanderling.world.faults.profiles import HOSTILE
from sanderling.world.faults.world import FaultyWorld
from sanderling.world.filters import MaskedWorld
from sanderling.world.local import LocalWorld

WORDS = ["river", "stone", "harbour", "poet", "founder", "museum", "school", "bridge", "winter", "garden"]
PAGES = [
    Page(
        url=f"https://w.example/{number}",
        title=f"{WORDS[number % 10]} {number}",
        text=f"The {WORDS[number % 7]} by the {WORDS[number % 9]}. [See](https://w.example/{number // 2}).",
    )
    for number in range(60)
]


class CountingEmbedder(HashedEmbedder):
    """Counts calls."""

    calls = 0

    def embed(self, texts, kind):
        self.calls += kind is Kind.QUERY
        return super().embed(texts, kind)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalWorld, CountingEmbedder]:
    place = tmp_path_factory.mktemp("many") / "w"
    build_world(place, PAGES, name="t", source="test")
    world, embedder = open_world(place), CountingEmbedder(64)
    embed_world(place, world, embedder, settings_for(embedder), spec="hashed:64")
    dense = open_dense(place, world.fingerprint, world.page_count, embedder)
    return world.with_ranker(HybridRanker([world.lexical, dense])), embedder


@pytest.fixture(scope="module")
def worlds(searched: tuple[LocalWorld, CountingEmbedder]) -> list[World]:
    local, (hybrid, _) = LocalWorld.in_memory(PAGES, name="memory"), searched
    masked = [
        MaskedWorld(world, [("https://w.example/3", "https://w.example/4")], Blocklist.parse("w.example/1\nw.example/7"))
        for world in (local, hybrid)
    ]
    return [local, hybrid, *masked, *(FaultyWorld(world, HOSTILE, seed=3) for world in (local, *masked))]


QUERY = st.lists(st.sampled_from([*WORDS, "zzz", "", "harber", " "]), max_size=4).map(" ".join)


@settings(deadline=None, max_examples=60)
@given(
    queries=st.lists(QUERY, max_size=5),
    limit=st.integers(0, 70),
    masked=st.frozensets(st.sampled_from([page.url for page in PAGES]), max_size=4),
    seed=st.integers(0, 5),
)
def test_together_as_alone(worlds: list[World], queries: list[str], limit: int, masked: frozenset[str], seed: int) -> None:
    occasion = Occasion(masked, seed, seed % 2)
    for world in worlds:
        alone = tuple(answered(world.search(query, limit=limit, occasion=occasion)) for query in queries)
        assert answered(world.search_many(queries, limit=limit, occasion=occasion)) == alone
        assert not {hit.url for reply in alone for hit in reply.hits} & masked


async def test_a_call_of_many_queries_embeds_once(searched: tuple[LocalWorld, CountingEmbedder]) -> None:
    hybrid, embedder = searched
    profile = get_profile("tiny")
    for world in (hybrid, MaskedWorld(hybrid)):
        embedder.calls = 0
        tool = world_tools(world, profile)[profile.tools.search]
        result = await tool({profile.tools.search_query: ["river stone", "poet", "zzz"]}, ToolContext())
        assert (embedder.calls, len(result.parts)) == (1, 3)


def test_who_ranks_is_part_of_the_fingerprint(searched: tuple[LocalWorld, CountingEmbedder]) -> None:
    hybrid, _ = searched
    lexical = LocalWorld.in_memory(PAGES, name="memory")
    assert hybrid.fingerprint != lexical.fingerprint == hybrid.pages_fingerprint
    assert hybrid.with_ranker(hybrid.lexical).fingerprint == lexical.fingerprint
