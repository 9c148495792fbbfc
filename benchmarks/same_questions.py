"""What `data dedupe` takes for one question: questions of one template, which are different ones, and made-up paraphrases.

    sanderling world build encyclopedia --size 500 --out SCRATCH/w
    sanderling synth graph SCRATCH/w --count 2000 --out SCRATCH/q.jsonl
    OMP_NUM_THREADS=1 python benchmarks/same_questions.py SCRATCH/q.jsonl

It writes benchmarks/results/same_questions.json. No two of the questions ask the same, though many have most of their words in
common: each one that is grouped with another is wrongly dropped. A paraphrase is a question with one thing changed by rule. It
is caught when it is grouped with the question that it was made from, by its words alone; with answers it is the same.
"""

import json
import random
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sanderling.data.dedupe import QA, THRESHOLD, question_groups
from sanderling.data.questions import read_questions
from sanderling.runs.progress import machine

HERE = Path(__file__).parent
Change = Callable[[str, random.Random], str | None]
"""A question to one that is changed; None: it has nothing to change."""
_SMALL = re.compile(r"(?<=\s)[a-z]{3,}(?=\s)")
_NAME = re.compile(r"(?<=[a-z] )[A-Z][a-z]+")
_NUMBER = re.compile(r"\b\d{4}\b")


def replaced(pattern: re.Pattern[str], new: Callable[[str, random.Random], str], times: int = 1) -> Change:
    """Put something else in the place of what the pattern finds, at places drawn."""

    def change(text: str, rng: random.Random) -> str | None:
        found = list(pattern.finditer(text))
        if len(found) < times:
            return None
        for match in sorted(rng.sample(found, times), key=lambda match: -match.start()):
            text = text[: match.start()] + new(match[0], rng) + text[match.end() :]
        return " ".join(text.split())

    return change


def clauses_swapped(text: str, rng: random.Random) -> str | None:
    """The last clause first."""
    head, comma, tail = text.rstrip("?.").rpartition(", ")
    return f"{tail}, {head}?" if comma else None


def invented(word: str, rng: random.Random) -> str:
    """A name that nobody has."""
    return "".join(rng.choice("bdfglmnrst") + rng.choice("aeiou") for _ in range(3)).capitalize()


SAME: dict[str, Change] = {
    "case, quotation marks and punctuation": lambda text, rng: f"“{text.upper().replace('?', '')}” …",
    "one word in small letters is another": replaced(_SMALL, lambda word, rng: invented(word, rng).lower()),
    "one word in small letters is left out": replaced(_SMALL, lambda word, rng: ""),
    "two words in small letters are others": replaced(_SMALL, lambda word, rng: invented(word, rng).lower(), 2),
    "four words stand before it": lambda text, rng: f"please tell me now {text}",
    "the last clause comes first": clauses_swapped,
}
OTHER: dict[str, Change] = {
    "one name is another": replaced(_NAME, invented),
    "one year is another": replaced(_NUMBER, lambda word, rng: str(int(word) + rng.randrange(1, 90))),
}


def caught(texts: list[str], change: Change) -> dict[str, float | int]:
    """How many changed questions are grouped with their own."""
    rng = random.Random(0)
    pairs = [(text, changed) for text in texts if (changed := change(text, rng)) is not None]
    long = [len(one.split()) >= 20 for one, _ in pairs]
    together = [question_groups([QA(one), QA(other)]) == [0, 0] for one, other in pairs]
    of_long = sum(both for both, is_long in zip(together, long, strict=True) if is_long)
    return {"n": len(pairs), "grouped": sum(together), "n of 20 words and more": sum(long), "of these grouped": of_long}


def dropped(asked: list[QA], *, by_answers: bool) -> int:
    """How many are not the first of their group."""
    groups = question_groups(asked, by_answers=by_answers)
    return len(asked) - len(set(groups))


def main() -> None:
    """Measure, print and write down."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("Give the file of questions that sanderling synth graph wrote.")
    questions = list(read_questions(Path(sys.argv[1])))
    asked = [QA(question.text, question.answers) for question in questions]
    texts = [question.text for question in questions]
    result = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/same_questions.py SCRATCH/q.jsonl",
        "made by": [
            "sanderling world build encyclopedia --size 500 --out SCRATCH/w",
            "sanderling synth graph SCRATCH/w --count 2000 --out SCRATCH/q.jsonl",
        ],
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
        "threshold": THRESHOLD,
        "different questions of few templates": {
            "n": len(asked),
            "wrongly dropped": dropped(asked, by_answers=True),
            "wrongly dropped, by text": dropped(asked, by_answers=False),
            "wrongly dropped, by text in small letters": dropped([QA(text.lower()) for text in texts], by_answers=False),
        },
        "the same, changed": {name: caught(texts, change) for name, change in SAME.items()},
        "another, by one word": {name: caught(texts, change) for name, change in OTHER.items()},
    }
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    (HERE / "results" / "same_questions.json").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
