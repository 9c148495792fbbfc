"""What is counted and averaged over attempts, without intervals: endings, turns, calls, tokens, the grammar. Pure."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from sanderling.core.record import Question
from sanderling.core.types import Ending
from sanderling.evaluate.episodes import Episode
from sanderling.evaluate.result import BrowseShare
from sanderling.evaluate.spending import mean


def counts_and_means(rows: Sequence[Episode], judged: Sequence[Episode], questions: Sequence[Question]) -> dict[str, Any]:
    """By the names of `EvalResult`."""
    can_be_judged = {one.id for one in questions if any(answer.strip() for answer in one.answers)}
    endings = Counter(row.ending for row in rows)
    right, wrong = [row for row in judged if row.correct], [row for row in judged if not row.correct]
    return {
        "endings": {ending: n for ending in Ending if (n := endings[ending])},
        "unscored": len(rows) - len(judged),
        "judge_outages": sum(row.correct is None and row.question in can_be_judged and _ended(row) for row in rows),
        "mean_turns": mean([row.turns for row in judged]),
        "mean_calls": mean([row.calls for row in judged]),
        "browse": BrowseShare(overall=_browse(judged), correct=_browse(right), wrong=_browse(wrong)),
        "mean_sampled_tokens": mean([row.sampled_tokens for row in judged]),
        "mean_context_tokens": mean([row.context_tokens for row in judged]),
        "turn_counts": _spread(right, wrong, lambda row: row.turns),
        "call_counts": _spread(right, wrong, lambda row: row.calls),
        "format_accuracy": _format_accuracy(judged),
        "episode_seconds": sum(row.seconds for row in rows),
    }


def _ended(row: Episode) -> bool:
    """Whether it came to an end that a judge can judge; others' records often do not say how."""
    return row.vote is not None if row.ending is None else row.ending.scored


def _spread(right: Sequence[Episode], wrong: Sequence[Episode], of: Callable[[Episode], int]) -> dict[str, dict[int, int]]:
    found = {"right": Counter(map(of, right)), "wrong": Counter(map(of, wrong))}
    return {name: dict(sorted(counts.items())) for name, counts in found.items() if counts}


def _format_accuracy(rows: Sequence[Episode]) -> float | None:
    odd = [row.odd_turns for row in rows]
    turns = sum(row.turns for row in rows)
    return 1.0 - sum(n for n in odd if n is not None) / turns if turns and None not in odd else None


def _browse(rows: Sequence[Episode]) -> float | None:
    calls = sum(row.calls for row in rows)
    return sum(row.visits for row in rows) / calls if calls else None
