"""The embedder without weights: the same everywhere, unit length, near for words in common."""

import numpy as np
import pytest
from dense_fakes import TableEmbedder
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.world.dense.embedders import HashedEmbedder, Kind, Prefixes, embed_units, open_embedder


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
