"""Which question of a benchmark a record asks, and when nobody can say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peer_files import benchmark

from sanderling.core.record import Question
from sanderling.evaluate.peers.joining import How, Joined, Joiner, Why

ROWS = benchmark(
    ("1", "Who wrote the hymn of Lund?", "Ada"),
    ("2", "Which river crosses Umeå?", "Ume"),
    ("3", "Which river crosses Umeå?", "Vindel"),
    ("x/y", "谁写了这本书？", "某人"),
)


def found(text: str, task: str = "") -> tuple[str, How] | Why:
    one = Joiner(ROWS).find(text, task)
    return (one.question.id, one.how) if isinstance(one, Joined) else one


@pytest.mark.parametrize(
    ("text", "task", "expected"),
    [
        ("Who wrote the hymn of Lund?", "1", ("b/1", How.TASK)),
        ("Answer this. Who wrote the hymn of Lund? Be short.", "1", ("b/1", How.TASK)),
        ("Who wrote the hymn of Lund", "", ("b/1", How.TEXT)),
        ("  Who wrote the\nhymn of Lund??  ", "", ("b/1", How.TEXT)),
        ("who WROTE the hymn, of Lund", "", ("b/1", How.WORDS)),
        ("谁写了这本书", "", ("b/x/y", How.TEXT)),
        ("谁写了这本书？", "x/y", ("b/x/y", How.TASK)),
        ("Which river crosses Umeå?", "3", ("b/3", How.TASK)),
        ("Which river crosses Umeå?", "", Why.SEVERAL),
        ("which river crosses umeå", "", Why.SEVERAL),
        ("Which river crosses Umeå?", "17", Why.SEVERAL),
        ("Who wrote the hymn of Malmö?", "", Why.NONE),
        ("Who wrote the hymn of Malmö?", "1", Why.NONE),
        ("Who wrote the hymn of Lund?", "2", ("b/1", How.TEXT)),
        ("", "", Why.NONE),
        ("", "2", ("b/2", How.TASK)),
        ("?", "", Why.NONE),
    ],
)
def test_a_record_finds_its_question_or_none(text: str, task: str, expected: object) -> None:
    assert found(text, task) == expected


def test_a_question_without_words_is_still_found_by_its_text() -> None:
    joiner = Joiner([Question(id="b/1", text="!!"), Question(id="b/2", text="…")])
    one = joiner.find("!!")
    assert isinstance(one, Joined) and one.question.id == "b/1"
    assert joiner.find("…!") is Why.NONE
    other = joiner.find("…", "1")
    assert isinstance(other, Joined) and (other.question.id, other.how) == ("b/2", How.TEXT), "the id alone proves nothing"


@given(st.lists(st.text(max_size=12), min_size=1, max_size=6), st.data())
def test_a_questions_own_text_finds_it_unless_another_asks_it_too(texts: list[str], data: st.DataObject) -> None:
    asked = [Question(id=f"b/{number}", text=text) for number, text in enumerate(texts)]
    text = data.draw(st.sampled_from(texts))
    alike = [one for one in asked if " ".join(one.text.split()).rstrip("?？ ") == " ".join(text.split()).rstrip("?？ ")]
    one = Joiner(asked).find(text)
    assert one == (Joined(alike[0], How.TEXT) if len(alike) == 1 else Why.SEVERAL)
