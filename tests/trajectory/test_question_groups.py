"""Near-duplicates: found as an exact comparison of all pairs finds them, and told apart by their answers."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.trajectory.near import NearIndex, similarity
from sanderling.trajectory.question_groups import Asked, question_groups
from sanderling.trajectory.question_text import normalised, shingles

WORDS = [
    "who",
    "what",
    "mayor",
    "river",
    "town",
    "of",
    "the",
    "in",
    "year",
    "born",
    "won",
    "first",
    "last",
    "potter",
    "Nolhum",
    "Askim",
    "京",
    "都",
    "是",
    "谁",
]


def test_short_texts_are_one_shingle() -> None:
    assert shingles(["a"]) == {"a"} and shingles([]) == frozenset() and len(shingles(list("abcde"))) == 3


def brute(texts: list[str], threshold: float) -> list[int]:
    """All pairs, by the definition."""
    parent = list(range(len(texts)))

    def root(a: int) -> int:
        return a if parent[a] == a else root(parent[a])

    words = [normalised(text) for text in texts]
    for b in range(len(texts)):
        for a in range(b):
            if words[a] and words[b] and similarity(words[a], words[b]) >= threshold:
                low, high = sorted((root(a), root(b)))
                parent[high] = low
    return [root(a) for a in range(len(texts))]


def varied(seed: int, count: int) -> list[str]:
    """Questions, and others with a word changed, dropped or added."""
    rng = random.Random(seed)
    found: list[str] = []
    for _ in range(count):
        words = (rng.choice(found).split() if found and rng.random() < 0.6 else []) or rng.choices(
            WORDS, k=rng.randrange(1, 22)
        )
        place = rng.randrange(len(words))
        words[place : place + rng.randrange(2)] = rng.choices(WORDS, k=rng.randrange(2))
        found.append(" ".join(words).title() + "?" * rng.randrange(2))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_groups_are_those_of_all_pairs(seed: int) -> None:
    texts = varied(seed, 150)
    assert question_groups(map(Asked, texts), by_answers=False) == brute(texts, 0.7)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.data())
def test_answers_only_ever_part(seed: int, data: st.DataObject) -> None:
    texts = varied(seed, 25)
    answers = data.draw(st.lists(st.sampled_from([(), ("Oslo",), ("oslo!", "Bergen"), ("Turku",)]), min_size=25, max_size=25))
    apart = question_groups([Asked(t, a) for t, a in zip(texts, answers, strict=True)])
    together = question_groups(map(Asked, texts), by_answers=False)
    assert all(together[row] == together[root] and root <= row for row, root in enumerate(apart))
    assert all(apart[root] == root for root in apart)


def test_different_answers_are_different_questions() -> None:
    alike = "Which person is the mayor of the home town of the potter {}?"
    asked = [Asked(alike.format("Nolhum"), ("Ann",)), Asked(alike.format("Belkor"), ("Bo",)), Asked(alike.format("Turven"))]
    assert question_groups(asked, by_answers=False) == [0, 0, 0]
    assert question_groups(asked) == [0, 1, 0], "one whose answer nobody knows goes with the first"
    twice = [Asked("Who won?", ("Ann",)), Asked("who won", ("Bo",)), Asked("WHO WON", ("bo", "Cy")), Asked("Who won", ("Cy",))]
    assert question_groups(twice) == [0, 1, 1, 1]


def test_questions_without_words_are_alone() -> None:
    assert question_groups([Asked(""), Asked("?"), Asked("")]) == [0, 1, 2]


def test_an_index_finds_what_reaches_the_threshold_and_says_how_near() -> None:
    index = NearIndex()
    long = "in which year was the first mayor of the northern river town born"
    for text in (long, "something else entirely with other words in it", ""):
        index.add(normalised(text))
    assert index.near(long + " there") == [(0, pytest.approx(11 / 12))]
    assert index.near(long, threshold=1.0) == [(0, 1.0)] and index.near("") == []
