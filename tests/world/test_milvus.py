"""A world on Milvus: the same pages and nearly the same lists, whole after a kill, one sentence for what is not there."""

import json
import re
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launcher import die, ended

from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.world_tools import world_tools
from sanderling.world import milvus
from sanderling.world.contract import Occasion, Page, World, answered
from sanderling.world.disk.building import build_world
from sanderling.world.disk.dense import embed_world, ranked_world, settings_for
from sanderling.world.disk.embedders import HashedEmbedder
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import open_world
from sanderling.world.encyclopedia import generate_pages
from sanderling.world.local import LocalWorld
from sanderling.world.milvus import Milvus, MilvusWorld, VectorIndex, encoded, push_world
from sanderling.world.text import index_text

pytest.importorskip("pymilvus", reason="needs the extra [milvus]")
pytest.importorskip("milvus_lite", reason="needs milvus-lite")

OTHERS = [
    Page(url="https://zh.example/1", title="东京塔", text="东京塔是日本东京的一座电视塔，建成于1958年。"),
    Page(url="https://ru.example/1", title="Маяк", text="Маяк на севере построен в 1911 году. Müller schrieb darüber."),
    Page(url="https://n.example/noise", title="Blob report", text="\x01" * 400),
    *(Page(url=f"https://same.example/{number}", title="Same", text="identical words here") for number in range(60)),
    Page(url="https://long.example/", title="Long", text="lighthouse keeper. " + "filler words again. " * 9_000 + "hidden gem"),
]
QUERIES = [
    "mayor festival", "who was a printer in the town", "market town twinned", "东京塔 建成", "Маяк построен", "muller",
    "identical", "blob report", "lighthouse", "zzz", "", " ?! ", "academy founded 1975",
]  # fmt: skip


class Pushed(NamedTuple):
    """A world here and there."""

    source: Path
    local: LocalWorld
    uri: str
    pointer: Path


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Pushed:
    place = tmp_path_factory.mktemp("milvus")
    source, uri = place / "w", str(place / "lite.db")
    build_world(source, [*generate_pages(150, 3), *OTHERS], name="here", source="test")
    local, embedder = open_world(source), HashedEmbedder(64)
    embed_world(source, local, embedder, settings_for(embedder), spec="hashed:64")
    done = push_world(source, local, uri, place / "there", vector_index=VectorIndex.FLAT)
    assert done.pages == local.page_count < done.passages
    return Pushed(source, local, uri, place / "there")


def pair(pushed: Pushed, mode: SearchMode) -> tuple[World, World]:
    return ranked_world(pushed.source, pushed.local, mode), MilvusWorld(pushed.pointer, mode)


def test_nearness_finds_the_same_but_for_the_last_digit(pushed: Pushed) -> None:
    here, there = pair(pushed, SearchMode.DENSE)
    for query in QUERIES:
        first, second = answered(here.search(query)).hits, answered(there.search(query)).hits
        assert [hit.score for hit in second] == pytest.approx([hit.score for hit in first], abs=1e-3)
        cut = first[-1].score + 1e-3 if first else 0.0
        assert {hit.url for hit in first if hit.score > cut} <= {hit.url for hit in second}, query


@pytest.mark.parametrize("mode", SearchMode)
def test_a_batch_is_each_query_alone_and_masks_are_exact(pushed: Pushed, mode: SearchMode) -> None:
    _, there = pair(pushed, mode)
    queries = [query for query in QUERIES if query != "identical"]
    plain = answered(there.search("mayor festival", limit=5))
    masked = Occasion(frozenset({plain.hits[0].url, plain.hits[2].url, "https://unknown.example/"}))
    for occasion in (Occasion(), masked):
        together = answered(there.search_many(queries, limit=5, occasion=occasion))
        assert together == tuple(answered(there.search(query, limit=5, occasion=occasion)) for query in queries)
        assert not {hit.url for reply in together for hit in reply.hits} & occasion.masked
    assert answered(there.search_many(["", "zzz"]))[0].status is ToolStatus.EMPTY


def test_visits_and_pages_are_the_same(pushed: Pushed) -> None:
    here, there = pair(pushed, SearchMode.LEXICAL)
    odd = ("https://long.example/#page=2", "http://ZH.example:80/1/", "https://n.example/noise", "https://unknown.example/")
    for url in [*[page.url for page in pushed.local.all_pages()][::25], *odd]:
        visits = [answered(world.visit(url, "founded mayor", max_words=60)) for world in (here, there)]
        assert visits[0] == visits[1]
    hidden = Occasion(frozenset({"https://zh.example/1"}))
    assert answered(there.visit("https://zh.example/1", occasion=hidden)).status is ToolStatus.NOT_FOUND


def push_and_die(source: Path, uri: str, target: Path, kill_at: int) -> None:
    calls, call = count(1), Milvus.call

    def counted(self: Milvus, method: str, *given: Any, **named: Any) -> Any:
        if method == "upsert" and next(calls) == kill_at:
            die()
        return call(self, method, *given, **named)

    Milvus.call, milvus._BATCH = counted, 20
    push_world(source, open_world(source), uri, target, vector_index=VectorIndex.FLAT)


@pytest.mark.parametrize("kill_at", [9])
def test_killed_it_goes_on(tmp_path: Path, kill_at: int) -> None:
    source, target, uri = tmp_path / "w", tmp_path / "there", str(tmp_path / "lite.db")
    build_world(source, generate_pages(50, 1), name="t", source="test")
    world, embedder = open_world(source), HashedEmbedder(16)
    embed_world(source, world, embedder, settings_for(embedder), spec="hashed:16")
    assert ended(push_and_die, source, uri, target, kill_at) == -signal.SIGKILL and not target.exists()
    assert ended(push_and_die, source, uri, target, -1) == 0
    assert list(MilvusWorld(target).all_pages()) == list(world.all_pages())


def test_nothing_is_written_over_another_directory(pushed: Pushed, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for taken in (pushed.source, tmp_path, tmp_path / "file"):
        with pytest.raises(UserError, match="holds something else than a pushed world: choose another --out"):
            push_world(pushed.source, pushed.local, pushed.uri, taken)


async def test_what_is_not_there_is_one_sentence_or_an_outage(pushed: Pushed, tmp_path: Path) -> None:
    pointer, record = tmp_path / "milvus.json", (pushed.pointer / "milvus.json").read_text()
    pointer.write_text(record)
    with pytest.raises(UserError, match="no dense index"):
        MilvusWorld(tmp_path, SearchMode.DENSE)
    pointer.write_text(record.replace(json.loads(record)["collection"], "other"))
    with pytest.raises(UserError, match="does not hold the"):
        MilvusWorld(tmp_path)
    pointer.write_text("{}")
    with pytest.raises(UserError, match="damaged"):
        MilvusWorld(tmp_path)
    gone = push_world(pushed.source, pushed.local, str(tmp_path / "own.db"), tmp_path / "gone", vector_index=VectorIndex.FLAT)
    there = MilvusWorld(tmp_path / "gone")
    Milvus(gone.uri, "x").call("drop_collection", gone.collection)
    profile = get_profile("tiny")
    with pytest.raises(ToolOutageError, match="refused a call"):
        await world_tools(there, profile)[profile.tools.search]({profile.tools.search_query: ["festival"]}, ToolContext())


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(UserError, match=r"pip install '.\[milvus\]'"):
        Milvus("x.db", "w")


@given(st.text(max_size=80))
def test_each_term_is_one_word_and_different_terms_stay_different(text: str) -> None:
    terms = index_text(text).split()
    field = encoded(" ".join(terms))
    assert re.findall(r"[a-z0-9]+", field) == field.split()
    assert (len(field.split()), len(set(field.split()))) == (len(terms), len(set(terms)))
    assert len(encoded("word " * 20_000)) <= 65_535
