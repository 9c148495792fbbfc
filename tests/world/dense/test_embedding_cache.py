"""Vectors kept by content: asked once, by key, whole after a kill, only read where nothing can be written."""

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sanderling.core.errors import UserError
from sanderling.world.dense.embedders import CachedEmbedder, HashedEmbedder, Kind


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
