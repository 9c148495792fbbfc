"""What a person wants to know of a file before a run is paid for: how much was read, what was not, and how it looks. Pure.

Of private questions the first letter and the length are told, of their answers the length, unless texts are asked for.
"""

from collections import Counter
from typing import Any

from sanderling.core.record import Question
from sanderling.evaluate.benchmarks.benchmark import Benchmark
from sanderling.evaluate.benchmarks.contract import Loaded

_SAMPLES = 3
_MOST_TOPICS = 12
_SHOWN = 300


def figures(loaded: Loaded, *, texts: bool) -> dict[str, Any]:
    """The check as JSON values. ``texts``: whether the samples hold their texts."""
    return {
        "benchmark": loaded.benchmark,
        "split": loaded.split,
        "file": loaded.path_name,
        "sha256": loaded.sha256,
        "rows": loaded.rows,
        "published": loaded.expected,
        "questions": len(loaded.questions),
        "without_answer": loaded.without_answer,
        "repeated_texts": loaded.repeated_texts,
        "unread": {why.value: count for why, count in loaded.unread.items()},
        "examples": [{"row": one.line, "why": one.why.value, "about": one.about if texts else ""} for one in loaded.examples],
        "levels": dict(sorted(_levels(loaded).items())),
        "topics": dict(_topics(loaded).most_common()),
        "private": loaded.private,
        "samples": [sample(one, texts=texts) for one in loaded.questions[:_SAMPLES]],
    }


def sample(question: Question, *, texts: bool) -> dict[str, Any]:
    """One question: whole, or by lengths and first letters only."""
    if texts:
        return {"id": question.id, "question": question.text, "answers": list(question.answers)}
    hidden = [f"({_characters(one)})" for one in question.answers]
    return {"id": question.id, "question": f"{question.text[:1]}… ({_characters(question.text)})", "answers": hidden}


def sentences(benchmark: Benchmark, loaded: Loaded) -> list[str]:
    """What was read."""
    split = f", split {loaded.split}" if loaded.split else ""
    lines = [
        f"{benchmark.title}{split}: {len(loaded.questions):,} questions in {loaded.path_name} (SHA-256 {loaded.sha256[:16]}…).",
        *left_out(loaded),
    ]
    if levels := _levels(loaded):
        lines.append("Levels: " + _counted(sorted(levels.items())))
    if topics := _topics(loaded):
        more = f" and {len(topics) - _MOST_TOPICS} more" if len(topics) > _MOST_TOPICS else ""
        lines.append("Topics: " + _counted(topics.most_common(_MOST_TOPICS)) + more)
    return lines


def left_out(loaded: Loaded) -> list[str]:
    """Which rows are no questions, and why."""
    lines = []
    for why, count in loaded.unread.items():
        rows = [one for one in loaded.examples if one.why is why]
        abouts = dict.fromkeys(one.about for one in rows if one.about and one.about != why.told)
        about = f": {'; '.join(abouts)}" if abouts and not loaded.private else ""
        places = ", ".join(str(one.line) for one in rows) + (", …" if count > len(rows) else "")
        lines.append(f"Left out: {count:,} {why.told} ({'row' if count == 1 else 'rows'} {places}{about}).")
    return lines


def warnings(benchmark: Benchmark, loaded: Loaded) -> list[str]:
    """What a person should look at before a run."""
    found = []
    if loaded.expected is not None and loaded.rows != loaded.expected:
        others = [one.name for one in benchmark.splits if one.questions == loaded.rows]
        hint = f"; so many has the split {others[0]}: say --split {others[0]}" if others else ""
        found.append(f"The file has {loaded.rows:,} rows of the {loaded.expected:,} that are published{hint}.")
    if loaded.broken:
        found.append(f"Of {loaded.rows:,} rows {loaded.broken:,} ought to be questions and could not be read.")
    if loaded.without_answer:
        found.append(
            f"Without an accepted answer in the file: {loaded.without_answer:,} questions, which can run and are never scored."
        )
    if loaded.repeated_texts:
        found.append(f"With the words of a question before them: {loaded.repeated_texts:,} questions; each counts.")
    return found


def sample_lines(loaded: Loaded, *, texts: bool) -> list[str]:
    """The first questions, one under the other."""
    lines = []
    for question in loaded.questions[:_SAMPLES]:
        told = sample(question, texts=texts)
        text, answers = str(told["question"]), " | ".join(told["answers"])
        lines.append(f"{told['id']}: {_cut(text)} → {_cut(answers) or '(no accepted answer)'}")
    return lines


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _levels(loaded: Loaded) -> Counter[str]:
    return Counter(level for question in loaded.questions if (level := str(question.meta["level"])))


def _topics(loaded: Loaded) -> Counter[str]:
    return Counter(topic for question in loaded.questions for topic in question.meta["topics"])


def _counted(items: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in items)


def _characters(text: str) -> str:
    return "1 character" if len(text) == 1 else f"{len(text):,} characters"
