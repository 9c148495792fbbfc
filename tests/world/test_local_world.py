"""A world on this machine: search and visit, queries together, however the index was laid out."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.world import encyclopedia
from sanderling.world.contract import Occasion, Page, World, answered
from sanderling.world.disk.building import build_world
from sanderling.world.disk.dense import DIRECTORY, DenseIndex, HybridRanker, embed_world, read_arrays, settings_for
from sanderling.world.disk.embedders import HashedEmbedder, Kind
from sanderling.world.disk.store import open_world
from sanderling.world.faults import PROFILES, FaultyWorld
from sanderling.world.filters import MaskedWorld
from sanderling.world.guard import Blocklist
from sanderling.world.local import LocalWorld

# One by one


TEXT = "river stone harbour poet founder museum school bridge winter garden music glass letter north island"
WORDS = TEXT.split()


def make_pages(count: int, seed: int = 0) -> list[Page]:
    rng = random.Random(seed)
    return [
        Page(url=f"https://w.example/p{i}", title=f"Page {rng.choice(WORDS)}", text=" ".join(rng.choices(WORDS, k=30)) + ".")
        for i in range(count)
    ]


def test_memory_and_disk_agree_to_the_byte(tmp_path):
    pages = make_pages(300)
    memory = LocalWorld.in_memory(pages, name="t")
    info = build_world(tmp_path / "w", iter(pages), name="t", source="test", seed=0)
    disk = open_world(tmp_path / "w")
    assert memory.fingerprint == disk.fingerprint == info.fingerprint
    assert memory.page_count == disk.page_count == 300
    for query in ("river poet", "glass island north", "harbour"):
        assert answered(memory.search(query, limit=25)) == answered(disk.search(query, limit=25))
    assert answered(memory.visit("https://w.example/p7", "poet", max_words=12)) == answered(
        disk.visit("https://w.example/p7", "poet", max_words=12)
    )


def test_what_is_no_page_is_left_out_and_duplicates_keep_the_first():
    pages = [
        ("https://w.example/d", "first text"), ("http://w.example/d/", "second text"), (" ", "text"),
        ("https://e.example", " "),
    ]  # fmt: skip
    world = LocalWorld.in_memory([Page(url=url, title=text, text=text) for url, text in pages], name="t")
    assert world.page_count == 1
    assert answered(world.visit("w.example/d")).title == "first text"
    with pytest.raises(UserError, match="would hold no page"):
        LocalWorld.in_memory([Page(url="u", title="t", text="")], name="none")


def test_all_words_as_they_are_written_count_twice_and_do_not_outweigh_a_page_that_is_about_them():
    long = " ".join(WORDS * 8)
    texts = {
        "short": "Walls and gates of old.",
        "terms": f"{long} The wall of the city has a gate.",
        "written": f"{long} {long} Walls of cities have gates.",
        "other": "Cities grow.",
        "listed": " ".join(WORDS * 400) + " How does one set the default timeout of a socket connection?",
        "about": "Socket timeout: the default timeout of each socket is set here. A socket has no timeout by default.",
    }
    pages = [Page(url=f"https://w.example/{title}", title=title, text=text) for title, text in texts.items()]
    world = LocalWorld.in_memory(pages, name="t")

    def found(query: str) -> list[str]:
        hits = answered(world.search(query)).hits
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        return [hit.title for hit in hits]

    assert found("walls gates cities")[0] == "written"
    assert found("the wall gate city")[0] == "terms"
    assert found("how does one set the default timeout of a socket connection")[:2] == ["about", "listed"]
    assert found("this") == []


CODE = """# Paths

Use `glob` as below, or **by hand**:

    # all modules, at any depth
    for path in glob("**/*.py"):
        print(handlers[path](path), __name__)

> quoted ~~text~~ of the [manual](https://w.example/manual/glob) and `__init__` methods
"""


@pytest.mark.parametrize("before", [0, 40])
def test_a_snippet_shows_what_the_page_says_and_only_addresses_go(before):
    page = Page(url="https://w.example/glob", title="Paths", text=f"{CODE}\n" * before + "Unrelated words. " * before + CODE)
    world = LocalWorld.in_memory([page], name="t")
    for query, shown in (
        (
            "modules at any depth",
            '# all modules, at any depth for path in glob("**/*.py"): print(handlers[path](path), __name__)',
        ),
        ("quoted manual init methods", "> quoted ~~text~~ of the manual and `__init__` methods"),
        ("glob below by hand", "Use `glob` as below, or **by hand**:"),
    ):
        assert shown in answered(world.search(query)).hits[0].snippet
    assert CODE.strip() in answered(world.visit(page.url, max_words=10_000)).text


def test_a_snippet_of_a_long_page_is_cut_from_the_best_place():
    """Not from addresses, which nobody reads; in words of other scripts, and of any case, as well as in ASCII."""
    filler = "[river](https://w.example/harbour/école/founders) by the stone — so it “goes”. " * 200
    text = f"{filler}\n\nThe École has two Founders. It is at the “harbour”. {filler}"
    world = LocalWorld.in_memory([Page(url="https://w.example/long", title="Long", text=text)], name="t")
    assert answered(world.search("founders of the ecole")).hits[0].snippet.startswith("The École has two Founders. It is at")
    assert "… " not in (shown := answered(world.search("harbour", snippet_words=8)).hits[0].snippet) and "“harbour”" in shown


TOGETHER_WORDS = ["river", "stone", "harbour", "poet", "founder", "museum", "school", "bridge", "winter", "garden"]
PAGES = [
    Page(
        url=f"https://w.example/{number}",
        title=f"{TOGETHER_WORDS[number % 10]} {number}",
        text=f"The {TOGETHER_WORDS[number % 7]} by the {TOGETHER_WORDS[number % 9]}. [See](https://w.example/{number // 2}).",
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
    info = embed_world(place, world, embedder, settings_for(embedder), spec="hashed:64")
    dense = DenseIndex(info.settings, *read_arrays(place / DIRECTORY, info), embedder)
    return world.with_ranker(HybridRanker([world.lexical, dense])), embedder


@pytest.fixture(scope="module")
def worlds(searched: tuple[LocalWorld, CountingEmbedder]) -> list[World]:
    local, (hybrid, _) = LocalWorld.in_memory(PAGES, name="memory"), searched
    masked = [
        MaskedWorld(world, [("https://w.example/3", "https://w.example/4")], Blocklist.parse("w.example/1\nw.example/7"))
        for world in (local, hybrid)
    ]
    return [local, hybrid, *masked, *(FaultyWorld(world, PROFILES["hostile"], seed=3) for world in (local, *masked))]


QUERY = st.lists(st.sampled_from([*TOGETHER_WORDS, "zzz", "", "harber", " "]), max_size=4).map(" ".join)


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


def test_a_query_of_the_letter_y_alone_ends_on_a_long_page():
    text = "The axis y and the plan. " * 2000
    world = LocalWorld.in_memory([Page(url="https://a.example/y", title="Axes", text=text)], name="w")
    assert "axis y" in answered(world.search("y")).hits[0].snippet


# -- The generated encyclopedia: the same bytes for the same seed, facts that hold together, pages that err as they should ---

STOP_WORDS = {*re.findall("[a-z]+", "a and at for has in is its of one that the to was when where which who")}


@pytest.fixture(scope="module")
def world() -> encyclopedia.Encyclopedia:
    return encyclopedia.generate_encyclopedia(200, 3)


def words(texts: tuple[str, ...]) -> set[str]:
    return set(re.findall("[a-z]+", re.sub("{.}", " ", " ".join(texts)).lower())) - STOP_WORDS


def test_held_out_names_occur_in_no_training_world() -> None:
    def names(held: encyclopedia.Names) -> set[str]:
        made = (encyclopedia.generate_encyclopedia(300, seed, held) for seed in range(4))
        return {word for one in made for entity in one.facts.entities for word in entity.name.split()}

    trained, held_out = names(encyclopedia.Names.TRAIN), names(encyclopedia.Names.HELD_OUT)
    assert min(len(trained), len(held_out)) > 500
    assert trained & held_out <= {*encyclopedia.ORGANISATION_FORMS, *encyclopedia.WORK_FORMS, *encyclopedia.EVENT_FORMS, "of"}


@pytest.mark.parametrize("size", [-1, 0, 1, encyclopedia.SMALLEST - 1])
def test_too_small_is_one_sentence(size: int) -> None:
    with pytest.raises(UserError, match=f"{encyclopedia.SMALLEST}"):
        encyclopedia.generate_encyclopedia(size, 1)


def test_every_claim_is_said_on_its_page_and_names_its_object(world: encyclopedia.Encyclopedia) -> None:
    for item in world.pages:
        entity = world.facts.entities[item.entity]
        assert set(item.claims) == set(item.sentences) == {relation.name for relation in encyclopedia.BY_SUBJECT[entity.kind]}
        for name, sentence in item.sentences.items():
            assert sentence in item.page.text
            assert world.facts.object_text(item.claims[name]).casefold() in sentence.casefold()


@pytest.mark.parametrize("relation", encyclopedia.RELATIONS, ids=lambda relation: relation.name)
def test_pages_and_questions_share_no_content_word(relation: encyclopedia.Relation) -> None:
    assert not words(relation.pages) & words(relation.questions)
    assert all(text.count("{s}") == text.count("{o}") == 1 for text in relation.pages)
    assert all(text.count("{x}") == 1 for text in relation.questions)
