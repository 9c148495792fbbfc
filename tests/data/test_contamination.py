"""Benchmarks' questions in training data: what is recognised, as what, and what is left in peace."""

import random
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.text import normalised, shingles
from sanderling.core.types import Role
from sanderling.data.contamination import Benchmarks, Kind
from sanderling.data.dedupe import QA, Deduped, Shares, dedupe_file, question_groups, split_file, things_of
from sanderling.data.importing import open_trajectories
from sanderling.judge.verdict import Ruling
from sanderling.runs.jsonl import write_trajectories

LONG = (
    "Which composer, born in a harbour town that was rebuilt after the fire of 1904, wrote the only opera premiered there "
    "before the second bridge was opened?"
)
SHORT = "Who designed the second bridge of Ålesund?"
WIDE = "哪位作曲家出生在一九零四年大火后重建的港口城市？"


def ask(text: str, *answers: str) -> Question:
    return Question(id="q", text=text, answers=answers)


def known(*questions: Question) -> Benchmarks:
    found = Benchmarks()
    found.add("bench", questions)
    return found


BENCH = known(ask(LONG, "Ann"), ask(SHORT, "Bo"), ask(WIDE, "安"), ask("Why?", "so"))


@pytest.mark.parametrize(
    ("question", "kind", "place", "same"),
    [
        (ask(LONG.upper().replace(",", "")), Kind.EXACT, 0, None),
        (ask("why"), Kind.EXACT, 3, None),
        (ask(LONG.replace("composer", "musician"), "ann."), Kind.NEAR, 0, True),
        (ask(LONG.replace("composer", "musician"), "Eve"), Kind.NEAR, 0, False),
        (
            ask("Think hard, use at least ten searches, cite all of them and answer in Norwegian: " + SHORT + " Only a name."),
            Kind.CONTAINED,
            1,
            None,
        ),
        (ask("True? Rebuilt after the fire of 1904, wrote the only opera premiered there before"), Kind.CONTAINED, 0, None),
        (ask("请回答下面的问题并给出所有的资料来源和链接以及推理过程谢谢" + WIDE), Kind.CONTAINED, 2, None),
    ],
)
def test_what_is_recognised(question: Question, kind: Kind, place: int, same: bool | None) -> None:
    hit = BENCH.check("t", question)
    assert hit is not None and (hit.kind, hit.benchmark, hit.same_answer) == (kind, f"bench#{place}", same)
    assert hit.question == question.text


@pytest.mark.parametrize(
    "question",
    [
        ask("Who designed the second bridge of a town?", "Bo"), ask("Why is that so, and who says so?"),
        ask("Which town was rebuilt after a fire?", "Ann"), ask("哪位作曲家写了歌剧？", "安"), ask(""), ask("?!"),
    ],
)  # fmt: skip
def test_what_is_left_in_peace(question: Question) -> None:
    assert BENCH.check("t", question) is None


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=6, max_size=18), min_size=1, max_size=30), st.data())
def test_a_whole_question_is_recognised_between_other_words(questions: list[list[str]], data: st.DataObject) -> None:
    bench = known(*(ask(" ".join(words)) for words in questions))
    words = data.draw(st.sampled_from(questions))
    around = [f"x{n}" for n in range(data.draw(st.integers(0, 40)))]
    assert bench.check("t", ask(" ".join([*around, *words, *around]))) is not None


# -- The same question: groups as all pairs give them, which trajectory is kept, and parts that share no question ----------

WORDS = "who what mayor river town of the in year born won first last potter Nolhum Askim 京 都 是 谁".split()  # noqa: SIM905


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
    for a, b in combinations(range(len(texts)), 2):
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
        before = rng.choice(found).split() if found and rng.random() < 0.6 else []
        words = before or rng.choices(WORDS, k=rng.randrange(1, 22))
        place = rng.randrange(len(words))
        words[place : place + rng.randrange(2)] = rng.choices(WORDS, k=rng.randrange(2))
        text = " ".join(words)
        found.append((text.title() if rng.randrange(2) else text.lower()) + "?" * rng.randrange(2))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_those_of_all_pairs(seed: int) -> None:
    texts = varied(seed, 150)
    assert question_groups(map(QA, texts), by_answers=False) == brute(texts, 0.7)


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_a_function_of_the_set(seed: int) -> None:
    rng = random.Random(seed)
    asked = [QA(text, rng.choice([(), (), ("x",), ("y",), ("X", "y")])) for text in varied(seed, 100)]
    order = rng.sample(range(100), 100)
    straight, shuffled = question_groups(asked), question_groups([asked[row] for row in order])
    for one, other in combinations(range(100), 2):
        assert (shuffled[one] == shuffled[other]) == (straight[order[one]] == straight[order[other]])


def test_different_answers_are_different_questions() -> None:
    alike = "Which person is the mayor of the home town of the potter {}?"
    names = (("Nolhum", ("Ann",)), ("Belkor", ("Bo",)), ("Turven", ()))
    asked = [QA(alike.format(name), answers) for name, answers in names]
    assert question_groups(asked) == question_groups(asked, by_answers=False) == [0, 1, 2], "they name others"
    small = [QA(question.text.lower(), question.answers) for question in asked]
    assert question_groups(small, by_answers=False) == [0, 0, 0], "small letters name nobody"
    assert question_groups(small) == [0, 1, 1], "one whose answer nobody knows goes with the first by the alphabet: belkor"
    twice = [QA("Who won?", ("Ann",)), QA("who won", ("Bo",)), QA("WHO WON", ("bo", "Cy")), QA("Who won", ("Cy",))]
    assert question_groups(twice) == [0, 1, 1, 1]


TEXT = "in which year was the first mayor of the northern river town born who later built the long bridge"
BASE = TEXT.split()
NEAR = st.builds(
    lambda place, word, name: " ".join([*BASE[:place], word, *BASE[place + 1 :]]) + f" of {name}",
    st.integers(0, len(BASE) - 1),
    st.sampled_from(["", "old", "new"]),
    st.sampled_from(["it", "Asker", "Askim", "1904", "asker"]),
)
ASKED = st.lists(st.builds(QA, NEAR, st.sampled_from([(), (), ("x",), ("y",), ("X", "y"), ("z",)])), max_size=14)


@given(ASKED)
@example([QA(f"{TEXT} of {name}", answers) for name, answers in (("Asker", ()), ("asker", ("x",)), ("Askim", ("x",)))])
def test_an_unanswered_question_ties_no_two_answers_together(asked: list[QA]) -> None:
    """Groups of questions with answers are what they are without the others."""
    groups = question_groups(asked)
    known = [row for row, question in enumerate(asked) if question.answers]
    alone = question_groups([asked[row] for row in known])
    for one, other in combinations(range(len(known)), 2):
        assert (alone[one] == alone[other]) == (groups[known[one]] == groups[known[other]])


# -- what is kept ---------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What the choice looks at."""

    question: QA
    ruling: Ruling | None = None
    answered: bool = True
    turns: int = 3

    def trajectory(self, id: str) -> Trajectory:
        nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="?")]
        nodes += [Node(parent=n, role=Role.ASSISTANT, kind=NodeKind.TURN, text="t") for n in range(self.turns)]
        correct = {Ruling.CORRECT: True, Ruling.INCORRECT: False}.get(self.ruling) if self.ruling else None
        return Trajectory(
            id=id,
            question=Question(id="q", text=self.question.text, answers=self.question.answers),
            nodes=tuple(nodes),
            leaf=self.turns,
            ending=None,
            answer="x" if self.answered else None,
            meta={} if self.ruling is None else {"evaluation": {"correct": correct}},
        )


def stored(folder: Path, rows: list[Row], ids: str = "") -> Path:
    write_trajectories(folder / "in.jsonl", (row.trajectory(ids or str(number)) for number, row in enumerate(rows)))
    return folder / "in.jsonl"


def deduped(folder: Path, rows: list[Row], ids: str = "", **options: object) -> tuple[list[Trajectory], Deduped]:
    done = dedupe_file(stored(folder, rows, ids), folder / "out.jsonl", **options)  # pyright: ignore[reportArgumentType]
    return list(open_trajectories(folder / "out.jsonl")), done


ONE = QA(TEXT)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (Row(ONE, Ruling.CORRECT, turns=9), Row(ONE, None, turns=1)),
        (Row(ONE, Ruling.UNSCORED, turns=9), Row(ONE, Ruling.INCORRECT, turns=1)),
        (Row(ONE, turns=9), Row(ONE, answered=False, turns=1)),
        (Row(ONE, turns=2), Row(ONE, turns=3)),
    ],
)
def test_the_better_one_is_kept_wherever_it_stands(tmp_path: Path, better: Row, worse: Row) -> None:
    for rows, kept in (([better, worse], "0"), ([worse, better], "1")):
        found, done = deduped(tmp_path, rows)
        assert [one.id for one in found] == [kept] and [one["kept"] for one in done.left_out] == [kept]


SAMPLE = st.sampled_from([TEXT, TEXT.upper(), f"{TEXT} there", f"{TEXT} twice", "else"])
ROWS = st.lists(
    st.builds(
        Row,
        st.builds(QA, SAMPLE, st.sampled_from([(), (), ("x",), ("y",), ("x", "y")])),
        st.sampled_from([None, *Ruling]),
        st.booleans(),
        st.integers(1, 2),
    ),
    max_size=10,
)


@settings(max_examples=40, deadline=None)
@given(ROWS, st.randoms(use_true_random=False), st.integers(1, 2))
def test_what_is_kept_is_a_function_of_the_set(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], chance: random.Random, keep: int
) -> None:
    folder = tmp_path_factory.mktemp("d")
    kept, done = deduped(folder, rows, "same", keep=keep)
    assert done.kept == len(kept) == len(rows) - len(done.left_out)
    others, _ = deduped(folder, chance.sample(rows, len(rows)), "same", keep=keep)
    assert Counter(map(repr, kept)) == Counter(map(repr, others))


# -- parts ----------------------------------------------------------------------------------------------------------------

SHARES = Shares.read("train=0.7, validation=0.2,test=0.1")


def split(folder: Path, asked: list[QA], shares: Shares = SHARES, **options: object) -> list[int]:
    """The part of each question."""
    split_file(stored(folder, [Row(question, turns=1) for question in asked]), folder / "parts", shares, **options)  # pyright: ignore[reportArgumentType]
    found = {
        int(one.id): place
        for place, name in enumerate(shares.names)
        for one in open_trajectories(folder / "parts" / f"{name}.jsonl")
    }
    return [found[row] for row in range(len(asked))]


QUESTIONS = st.lists(st.text("abc ?", max_size=12).map(QA), max_size=12)


@settings(max_examples=40, deadline=None)
@given(QUESTIONS, QUESTIONS, st.randoms(use_true_random=False), st.booleans())
def test_no_question_is_in_two_parts_and_no_other_row_moves_it(
    tmp_path_factory: pytest.TempPathFactory, asked: list[QA], more: list[QA], chance: random.Random, by_answers: bool
) -> None:
    folder = tmp_path_factory.mktemp("s")
    parts, groups = split(folder, asked, by_answers=by_answers), question_groups(asked, by_answers=False)
    assert all(parts[row] == parts[root] for row, root in enumerate(groups))
    order = chance.sample(range(len(asked)), len(asked))
    assert split(folder, [asked[row] for row in order], by_answers=by_answers) == [parts[row] for row in order]
    after, new = split(folder, [*asked, *more], by_answers=by_answers), question_groups([*asked, *more], by_answers=False)
    assert all(parts[row] == after[row] for row in range(len(asked)) if groups[row] == new[row])


def test_the_same_words_stay_together_whatever_their_answers(tmp_path: Path) -> None:
    asked = [QA(f"who was the winner of the river race of number {n}", (str(n),)) for n in range(60)]
    twins = [QA(question.text.upper(), (f"other {n}",)) for n, question in enumerate(asked)]
    found = split(tmp_path, [*asked, *twins], by_answers=True)
    assert found[:60] == found[60:] and set(found) == {0, 1, 2}
    towns = [QA(f"who was the winner of the river race of the town {chr(97 + n % 26)}{chr(97 + n // 26)}") for n in range(60)]
    assert len(set(split(tmp_path, towns))) == 1, "one template is one group where neither answers nor capitals tell"


@pytest.mark.parametrize("text", ["", "train", "train=x", "train=-1", "train=0", "a=1,a=2", "../x=1", "=1", "a=nan"])
def test_bad_shares_are_refused(text: str) -> None:
    with pytest.raises(UserError):
        Shares.read(text)


def test_a_split_stands_beside_no_other_file(tmp_path: Path):
    split(tmp_path, [QA("who?")])
    (tmp_path / "parts" / "earlier.jsonl").write_text("")
    with pytest.raises(UserError, match=r"earlier\.jsonl, which is no part"):
        split(tmp_path, [QA("who?")])
