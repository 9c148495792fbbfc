"""What is found, and with what score, does not depend on how the index came to lie on the disk."""

import random
from pathlib import Path

import pytest
import tantivy

from sanderling.world.disk.index import IndexBuilder, TextIndex

WORDS = [f"w{rank}" for rank in range(400)]
SHARES = [1 / (rank + 1) for rank in range(400)]


def build(directory: Path | None, commit_every: int) -> TextIndex:
    rng = random.Random(1)
    builder = IndexBuilder(directory)
    for number in range(3_000):
        words = rng.choices(WORDS, SHARES, k=rng.randrange(5, 60))
        builder.add(number, " ".join(words[:2]), " ".join(words))
        if number % commit_every == commit_every - 1:
            builder.commit()
    return builder.finish()


@pytest.mark.parametrize("commit_every", [137, 1_000])
def test_lists_and_scores_are_the_same_from_few_and_many_segments(tmp_path, commit_every):
    (tmp_path / "many").mkdir()
    whole, many = build(None, 10_000), build(tmp_path / "many", commit_every)
    rng = random.Random(2)
    for _ in range(300):
        query = " ".join(rng.sample(WORDS, rng.randrange(1, 12)))
        limit = rng.choice([1, 3, 10, 50])
        hidden = rng.sample(range(3_000), rng.choice([0, 0, 5]))
        found = whole.rank(query, limit, hidden)
        assert found == many.rank(query, limit, hidden)
        assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))
        assert not {number for number, _ in found} & set(hidden)


def test_pruning_changes_no_list(tmp_path):
    """The exact list is that of every page scored by every term, asked of tantivy itself."""
    found = build(tmp_path, 10_000)
    raw = tantivy.Index.open(str(tmp_path))
    searcher, rng = raw.searcher(), random.Random(3)
    for _ in range(400):
        asked = [*rng.sample(WORDS[:12], rng.randrange(0, 6)), *rng.sample(WORDS[60:], rng.randrange(0, 5))]
        asked = [term for term in asked if searcher.doc_freq("text", term)]
        clauses = [(tantivy.Occur.Should, tantivy.Query.term_query(raw.schema, "text", term, "freq")) for term in asked]
        hits = searcher.search(tantivy.Query.boolean_query(clauses), limit=3_000).hits
        numbers = searcher.fast_field_values("page", [address for _, address in hits])
        exact = sorted(((n, round(hit[0], 3)) for n, hit in zip(numbers, hits, strict=True)), key=lambda p: (-p[1], p[0]))
        limit = rng.choice([1, 10])
        assert found.rank(" ".join(asked), limit) == exact[:limit]


def test_a_tie_that_reaches_past_many_hidden_pages_goes_by_number(tmp_path: Path) -> None:
    """Pages are added in falling order, so that the index meets them in another one than theirs."""
    builder = IndexBuilder(tmp_path)
    for number in reversed(range(24_000)):
        builder.add(number, "", "same words")
    index = builder.finish()
    assert [number for number, _ in index.rank("same", 5, range(20_000))] == [20_000, 20_001, 20_002, 20_003, 20_004]
