"""Embedders: the hashed one, functions, the cache over any; names, prefixes, broken promises."""

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from dense_fakes import TableEmbedder
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.world.dense.embedders import (
    CachedEmbedder,
    CallableEmbedder,
    HashedEmbedder,
    Kind,
    Prefixes,
    embed_units,
    open_embedder,
)

# Hashed


def test_the_vector_of_a_text_never_changes() -> None:
    """Indexes on disk depend on it: whoever changes it raises the version in the model's name."""
    (vector,) = embed_units(HashedEmbedder(16), ["tidal flats"], Kind.QUERY)
    assert HashedEmbedder(16).model == "hashed-1:16"
    expected = [0.012, 0.229, 0.127, -0.229, -0.548, 0.217, 0.102, -0.127, 0.09, 0.241, 0.139, 0.56, -0.102, 0.0, 0.229, -0.205]
    assert np.round(vector.astype(float), 3).tolist() == expected


@given(st.lists(st.text(max_size=40), max_size=5))
def test_texts_together_are_texts_alone_and_of_unit_length(texts: list[str]) -> None:
    embedder = HashedEmbedder(64)
    together = embed_units(embedder, texts, Kind.DOCUMENT)
    assert together.shape == (len(texts), 64) and together.dtype == np.float32
    for text, row in zip(texts, together, strict=True):
        assert np.array_equal(row, embed_units(embedder, [text], Kind.DOCUMENT)[0])
        assert not row.any() or abs(np.linalg.norm(row) - 1) < 1e-5


def test_common_words_and_common_spelling_are_near() -> None:
    a, same, typo, other = embed_units(
        HashedEmbedder(), ["the harbour museum", "museum at a harbour", "harbor museums", "winter poet"], Kind.DOCUMENT
    )
    assert a @ same > 0.99
    assert 0.4 < a @ typo < 0.99
    assert abs(a @ other) < 0.2


def test_a_text_without_words_is_nowhere() -> None:
    assert not embed_units(HashedEmbedder(), ["", " ?! "], Kind.QUERY).any()


def test_prefixes_differ_by_kind() -> None:
    embedder = TableEmbedder({})
    prefixes = Prefixes("query: ", "passage: ")
    embed_units(embedder, ["a"], Kind.QUERY, prefixes)
    embed_units(embedder, ["a"], Kind.DOCUMENT, prefixes)
    assert embedder.calls == [(["query: a"], Kind.QUERY), (["passage: a"], Kind.DOCUMENT)]


@pytest.mark.parametrize(
    ("row", "reason"), [([1.0], "shape"), ([float("nan"), 1.0], "NaN"), ([float("inf"), 1.0], "NaN or infinity")]
)
def test_an_embedder_that_breaks_its_promise_is_named(row: list[float], reason: str) -> None:
    embedder = TableEmbedder({"a": row})
    with pytest.raises(UserError, match=rf"embedder table .*{reason}"):
        embed_units(embedder, ["a"], Kind.QUERY)


@pytest.mark.parametrize("spec", ["", "hash", "hashed:", "hashed:8", "hashed:x", "hashed:-64", "word2vec", "ftp://x#m"])
def test_a_wrong_name_is_told_the_forms(spec: str) -> None:
    if spec == "hashed:":
        assert open_embedder(spec).dimension == 512
        return
    with pytest.raises(UserError, match=r"hashed"):
        open_embedder(spec)


# Functions

MODULE = """
import numpy as np
NUMBER = 3
def lengths(texts, kind):
    return [[len(text), 1.0 if kind == "query" else 2.0] for text in texts]
def words(texts, kind):
    return "none"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "someones_model.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    return "someones_model"


def test_a_function_of_the_current_directory(module: str) -> None:
    embedder = open_embedder(f"callable:{module}:lengths")
    assert (embedder.model, embedder.dimension) == (f"callable:{module}:lengths", 2)
    assert embedder.embed(["abc"], Kind.QUERY).tolist() == [[3, 1]]
    assert embedder.embed(["abc"], Kind.DOCUMENT).tolist() == [[3, 2]]
    assert np.allclose(np.linalg.norm(embed_units(embedder, ["a", "bb"], Kind.QUERY), axis=1), 1)


@pytest.mark.parametrize(
    ("function", "sentence"), [("none", "no function 'none'"), ("NUMBER", "no function"), ("words", "no array of numbers")]
)
def test_what_is_no_embedder_is_told(module: str, function: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        open_embedder(f"callable:{module}:{function}").embed(["a"], Kind.QUERY)


@pytest.mark.parametrize("spec", ["callable:", "callable:x", "callable::f", "callable:no_such_module_anywhere:f"])
def test_a_function_that_is_not_there(spec: str) -> None:
    with pytest.raises(UserError, match=r"give hashed|cannot be imported"):
        open_embedder(spec)


def test_rows_that_are_no_rows_are_told() -> None:
    with pytest.raises(UserError, match="no row of numbers"):
        _ = CallableEmbedder(lambda texts, kind: [1.0 for _ in texts], "flat").dimension


# The cache


class Counting(HashedEmbedder):
    """Keeps the texts it was asked for."""

    def __init__(self, dimension: int = 16) -> None:
        super().__init__(dimension)
        self.asked: list[str] = []

    def embed(self, texts, kind):
        self.asked += texts
        return super().embed(texts, kind)


def test_equal_texts_are_asked_for_once(tmp_path: Path) -> None:
    inner = Counting()
    cached = CachedEmbedder(inner, tmp_path / "c")
    texts = ["river", "stone", "river", ""]
    expected = HashedEmbedder(16).embed(texts, Kind.QUERY)
    for embedder in (cached, cached, CachedEmbedder(inner, tmp_path / "c")):
        assert np.array_equal(embedder.embed(texts, Kind.QUERY), expected)
    assert inner.asked == ["river", "stone", ""]
    assert cached.embed([], Kind.QUERY).shape == (0, 16)
    assert (cached.model, cached.dimension) == (inner.model, 16)


def test_model_kind_and_text_make_the_key(tmp_path: Path) -> None:
    small, large = Counting(16), Counting(32)
    CachedEmbedder(small, tmp_path / "c").embed(["river"], Kind.QUERY)
    CachedEmbedder(small, tmp_path / "c").embed(["river"], Kind.DOCUMENT)
    assert CachedEmbedder(large, tmp_path / "c").embed(["river"], Kind.QUERY).shape == (1, 32)
    assert (small.asked, large.asked) == (["river", "river"], ["river"])


def test_threads_share_it(tmp_path: Path) -> None:
    cached = CachedEmbedder(Counting(), tmp_path / "c")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: cached.embed([f"word {n % 5}", "same"], Kind.QUERY), range(60)))
    assert all(np.array_equal(found[n], found[n % 5]) for n in range(60))


CHILD = """
import os, signal, sys
from pathlib import Path
from sanderling.world.dense.embedders import CachedEmbedder
from sanderling.world.dense.embedders import Kind
from sanderling.world.dense.embedders import HashedEmbedder
cached = CachedEmbedder(HashedEmbedder(16), Path(sys.argv[1]))
for number in range(10_000):
    cached.embed([f"word {number}"], Kind.QUERY)
    print(number, flush=True)
"""


def test_killed_it_keeps_what_it_had_said(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD, tmp_path / "c"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [int(child.stdout.readline()) for _ in range(20)]
        os.kill(child.pid, signal.SIGKILL)
    inner = Counting()
    found = CachedEmbedder(inner, tmp_path / "c").embed([f"word {number}" for number in said], Kind.QUERY)
    assert inner.asked == []
    assert np.array_equal(found, inner.embed([f"word {number}" for number in said], Kind.QUERY))


def test_a_broken_promise_is_not_kept(tmp_path: Path) -> None:
    class Broken(Counting):
        def embed(self, texts, kind):
            return np.full((len(texts), 16), np.nan, np.float32)

    CachedEmbedder(Broken(), tmp_path / "c").embed(["river"], Kind.QUERY)
    inner = Counting()
    CachedEmbedder(inner, tmp_path / "c").embed(["river"], Kind.QUERY)
    assert inner.asked == ["river"]


def test_where_nothing_can_be_written_it_only_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CachedEmbedder(Counting(), tmp_path / "c").embed(["river"], Kind.QUERY)
    monkeypatch.setattr("sanderling.world.dense.embedders.os.access", lambda *_: False)
    inner = Counting()
    for path in (tmp_path / "c", tmp_path / "none"):
        CachedEmbedder(inner, path).embed(["river", "stone"], Kind.QUERY)
    assert inner.asked == ["stone", "river", "stone"]
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("kind", ["directory", "text"])
def test_what_is_no_cache_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "c"
    path.mkdir() if kind == "directory" else path.write_text("these are no vectors " * 100)
    with pytest.raises(UserError, match="cannot be used"):
        CachedEmbedder(Counting(), path)


class Changed(Counting):
    """Another model under the same name, with vectors of another length."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.model = "same"


def test_vectors_of_another_length_under_the_same_name_are_refused(tmp_path: Path) -> None:
    CachedEmbedder(Changed(16), tmp_path / "c").embed(["river"], Kind.QUERY)
    with pytest.raises(UserError, match="has vectors of 16 dimensions under the name same, which has 32: choose another file"):
        CachedEmbedder(Changed(32), tmp_path / "c").embed(["river", "stone"], Kind.QUERY)


def test_what_was_not_promised_is_not_kept(tmp_path: Path) -> None:
    class Wrong(Counting):
        def embed(self, texts, kind):
            return np.zeros((len(texts), 3), np.float32)

    assert CachedEmbedder(Wrong(), tmp_path / "c").embed(["river"], Kind.QUERY).shape == (1, 3)
    assert CachedEmbedder(Counting(), tmp_path / "c").embed(["river"], Kind.QUERY).shape == (1, 16)


def test_a_torn_vector_is_one_sentence(tmp_path: Path) -> None:
    cached = CachedEmbedder(Counting(), tmp_path / "c")
    cached.embed(["river"], Kind.QUERY)
    with sqlite3.connect(tmp_path / "c") as connection:
        connection.execute("UPDATE vectors SET vector = x'010203'")
    with pytest.raises(UserError, match=r"cannot be read .* remove it"):
        cached.embed(["river"], Kind.QUERY)
