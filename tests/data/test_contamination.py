"""Benchmarks' questions in training data: what is recognised, as what, and what is left in peace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.record import Question
from sanderling.data.contamination import Benchmarks, Kind

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
        (
            ask("True? Rebuilt after the fire of 1904, wrote the only opera premiered there before"),
            Kind.CONTAINED,
            0,
            None,
        ),
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
        ask("Who designed the second bridge of a town?", "Bo"),
        ask("Why is that so, and who says so?"),
        ask("Which town was rebuilt after a fire?", "Ann"),
        ask("哪位作曲家写了歌剧？", "安"),
        ask(""),
        ask("?!"),
    ],
)
def test_what_is_left_in_peace(question: Question) -> None:
    assert BENCH.check("t", question) is None


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=6, max_size=18), min_size=1, max_size=30), st.data())
def test_a_whole_question_is_recognised_between_other_words(questions: list[list[str]], data: st.DataObject) -> None:
    bench = known(*(ask(" ".join(words)) for words in questions))
    words = data.draw(st.sampled_from(questions))
    around = [f"x{n}" for n in range(data.draw(st.integers(0, 40)))]
    assert bench.check("t", ask(" ".join([*around, *words, *around]))) is not None
