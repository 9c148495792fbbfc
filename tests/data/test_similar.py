"""Near-duplicates: found as an exact comparison of all pairs finds them, and told apart by their answers."""

import random
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.core.text import normalised, shingles
from sanderling.data.dedupe import QA, question_groups, things_of

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


def similarity(a: str, b: str) -> float:
    """The share of common shingles of two texts, given as words; 0 where both have none."""
    one, two = shingles(a.split()), shingles(b.split())
    return len(one & two) / len(one | two) if one | two else 0.0


def brute(texts: list[str], threshold: float) -> list[int]:
    """All pairs, by the definition."""
    parent = list(range(len(texts)))

    def root(a: int) -> int:
        return a if parent[a] == a else root(parent[a])

    words = [normalised(text) for text in texts]
    things = [things_of(said, [text for text, other in zip(texts, words, strict=True) if other == said]) for said in words]
    for b in range(len(texts)):
        for a in range(b):
            alike = words[a] and words[b] and similarity(words[a], words[b]) >= threshold
            if alike and (words[a] == words[b] or not things[a].differ(things[b])):
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
        text = " ".join(words)
        found.append((text.title() if rng.randrange(2) else text.lower()) + "?" * rng.randrange(2))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_groups_are_those_of_all_pairs(seed: int) -> None:
    texts = varied(seed, 150)
    assert question_groups(map(QA, texts), by_answers=False) == brute(texts, 0.7)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.data())
def test_answers_only_ever_part(seed: int, data: st.DataObject) -> None:
    texts = varied(seed, 25)
    answers = data.draw(st.lists(st.sampled_from([(), ("Oslo",), ("oslo!", "Bergen"), ("Turku",)]), min_size=25, max_size=25))
    apart = question_groups([QA(t, a) for t, a in zip(texts, answers, strict=True)])
    together = question_groups(map(QA, texts), by_answers=False)
    assert all(together[row] == together[root] and root <= row for row, root in enumerate(apart))
    assert all(apart[root] == root for root in apart)


def test_different_answers_are_different_questions() -> None:
    alike = "Which person is the mayor of the home town of the potter {}?"
    asked = [
        QA(alike.format("Nolhum"), ("Ann",)),
        QA(alike.format("Belkor"), ("Bo",)),
        QA(alike.format("Turven")),
    ]
    assert question_groups(asked) == question_groups(asked, by_answers=False) == [0, 1, 2], "they name others"
    small = [QA(question.text.lower(), question.answers) for question in asked]
    assert question_groups(small, by_answers=False) == [0, 0, 0], "small letters name nobody"
    assert question_groups(small) == [0, 1, 1], "one whose answer nobody knows goes with the first by the alphabet: belkor"
    twice = [
        QA("Who won?", ("Ann",)),
        QA("who won", ("Bo",)),
        QA("WHO WON", ("bo", "Cy")),
        QA("Who won", ("Cy",)),
    ]
    assert question_groups(twice) == [0, 1, 1, 1]


TEXT = "in which year was the first mayor of the northern river town born who later built the long bridge"
BASE = TEXT.split()
NEAR = st.builds(
    lambda place, word, name: QA(" ".join([*BASE[:place], word, *BASE[place + 1 :]]) + f" of {name}"),
    st.integers(0, len(BASE) - 1),
    st.sampled_from(["", "old", "new"]),
    st.sampled_from(["it", "Asker", "Askim", "1904", "asker"]),
)
KNOWN = st.sampled_from([(), (), ("x",), ("y",), ("X", "y"), ("z",)])
ASKED = st.lists(st.builds(lambda near, known: QA(near.text, known), NEAR, KNOWN), max_size=14)


@given(ASKED, st.randoms(use_true_random=False), st.booleans())
def test_groups_are_a_function_of_the_set(asked: list[QA], chance: random.Random, by_answers: bool) -> None:
    order = list(range(len(asked)))
    chance.shuffle(order)
    straight = question_groups(asked, by_answers=by_answers)
    shuffled = [order[first] for first in question_groups([asked[row] for row in order], by_answers=by_answers)]
    for one, other in combinations(range(len(order)), 2):
        assert (shuffled[one] == shuffled[other]) == (straight[order[one]] == straight[order[other]])


@given(ASKED)
def test_an_unanswered_question_ties_no_two_answers_together(asked: list[QA]) -> None:
    """Groups of questions with answers are what they are without the others."""
    groups = question_groups(asked)
    known = [row for row, question in enumerate(asked) if question.answers]
    alone = question_groups([asked[row] for row in known])
    for one, other in combinations(range(len(known)), 2):
        assert (alone[one] == alone[other]) == (groups[known[one]] == groups[known[other]])


def test_an_unanswered_question_goes_where_it_is_most_alike_and_takes_its_like_along() -> None:
    text = TEXT
    far, close = QA(text.replace("long", "old"), ("x",)), QA(text + " there", ("y",))
    nobody = [QA(text), QA(text + " and the tower"), QA("something else")]
    for asked in ([far, close, *nobody], [*nobody, close, far]):
        groups = dict(zip((question.text for question in asked), question_groups(asked), strict=True))
        assert groups[text] == groups[close.text] == groups[text + " and the tower"] != groups[far.text]
        assert len(set(groups.values())) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Who directed the {} film of that year?", ("Orlo", "Venn")),
        ("who won the race of {} in the river town of the old days", ("1904", "1905")),
        ("who won the race of {} in the river town of the old days", ("1.5 km", "15 km")),
        ("what did the people of the town say of {} in those days of need", ("C++", "C#")),
        ("what is the meaning of the sign {} in the letters of young people", ("😀", "😭")),
        ('who wrote the song "{}" that was sung in the town hall each year', ("the old road", "the new road")),
        ("谁写了《{}》这首每年在市政厅里由大家一起演唱的歌曲的歌词和曲子", ("老路", "新路")),
        ("The page of St. {} tells who built the tower of the town: name that builder", ("Orlo", "Venn")),
        ("How old was the body that paid the pilot Lumnun when another one paid the pilot {}?", ("Lumnun", "Orlo")),
        ("Which of the towns of {}'s river was burnt down by its own people in the war", ("Orlo", "Venn")),
    ],
)
def test_other_numbers_and_names_make_another_question(one: str, other: tuple[str, str]) -> None:
    base = "and which person lived in the house beside the well at the end of the street by the northern gate"
    asked = [QA(f"{one.format(name)} {base}", ("x",)) for name in other]
    assert similarity(*(normalised(question.text) for question in asked)) >= 0.7
    assert question_groups(asked) == question_groups(asked, by_answers=False) == [0, 1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Which town of Norway's coast was burnt down", "Which town of Norway coast was burnt down"),
        ("Who won in Oslo", "Who won in Oslo, Norway,"),
        ("Who won in Oslo", "WHO WON IN OSLO"),
        ("Who won the Race in Oslo", "Who won the match in Oslo"),
        ("What is the name", "Which is the name"),
        ("It is so. What is the name", "It is so. Which is the name"),
    ],
)
def test_what_only_says_it_otherwise_is_the_same_question(one: str, other: str) -> None:
    base = "and which person lived in the house beside the well at the end of the street by the northern gate"
    if other.isupper():
        base = base.upper()
    assert question_groups([QA(f"{one} {base}"), QA(f"{other} {base}")]) == [0, 0]


def test_many_questions_of_one_answer_are_found_by_the_index_as_one_by_one() -> None:
    rng = random.Random(1)
    begun = [" ".join(rng.choice(WORDS).lower() for _ in range(12)) for _ in range(60)]
    texts = [f"{text} of {word}" for text in begun for word in ("it", "that")]
    apart = question_groups([QA(text, ("yes",)) for text in texts])
    assert apart == question_groups(map(QA, texts), by_answers=False) and apart == brute(texts, 0.7)
    assert len(set(apart)) < len(set(map(normalised, texts)))


@pytest.mark.parametrize("seed", range(3))
def test_many_questions_are_grouped_the_same_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    asked = [QA(text, rng.choice([(), ("x",), ("y",), ("x", "z")])) for text in varied(seed, 300)]
    shuffled = rng.sample(asked, len(asked))
    one, other = (Counter(map(repr, members(rows))) for rows in (asked, shuffled))
    assert one == other and len(one) < len(asked)


def members(asked: list[QA]) -> list[list[QA]]:
    """The groups, each in one order."""
    found: dict[int, list[QA]] = {}
    for question, first in zip(asked, question_groups(asked), strict=True):
        found.setdefault(first, []).append(question)
    return [sorted(group, key=repr) for group in found.values()]
