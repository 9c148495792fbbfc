"""The figures over the attempts of a run. Pure: episodes in, figures out, in any order.

Outages (of a tool, the model or the judge) are unscored: in no mean, but counted, and more of them than the limit make the run
invalid. What nobody counted is None, never 0. All intervals come from one draw of questions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import nan
from typing import Any, NamedTuple

import numpy as np

from sanderling.core.record import Question, question_id
from sanderling.core.types import Ending
from sanderling.evaluate import statistics
from sanderling.evaluate.result import Agreed, Cost, Episode, Estimate, EvalResult, Group, JudgedAttempt, QuestionCounts
from sanderling.evaluate.statistics import FloatArray, Interval
from sanderling.policy.budget import Prices

_SEED = 0
_OUTAGES = frozenset({Ending.POLICY_OUTAGE, Ending.TOOL_OUTAGE, Ending.CANCELLED})


def summarise(
    episodes: Iterable[Episode],
    questions: Sequence[Question],
    attempts: int,
    *,
    unscored_limit: float = 0.02,
    prices: Prices | None = None,
    judged: Sequence[JudgedAttempt] = (),
    judge: str = "",
    second_judge: str = "",
    **about: Any,
) -> EvalResult:
    """The figures of a run, of which there is one episode an attempt.

    ``prices``: of the agent's tokens. ``judged``: the verdicts, for the agreement of judges. ``about``: fields of `EvalResult`
    that say what made the attempts.
    """
    rows = sorted(episodes, key=lambda episode: episode.key)
    scored = [row for row in rows if row.correct is not None]
    counts = _counts(rows, questions)
    n, c = [one.scored for one in counts], [one.correct for one in counts]
    some, members = statistics.any_right(n, c, attempts), _members(counts)
    means = {
        "pass_at_k": dict(enumerate(some.T, start=1)),
        "pass_hat_k": dict(enumerate(statistics.all_right(n, c, attempts).T, start=1)),
        **{f"by {name}": {g: np.where(of, some[:, 0], nan) for g, of in groups.items()} for name, groups in members.items()},
    }
    found = estimates(means, worlds_of(counts))
    endings, calls = Counter(row.ending for row in rows), sum(row.calls for row in scored)
    made, unscored = len(rows), len(rows) - len(scored)
    lost = f"{unscored} of {made} attempts ({unscored / made:.1%}) could not be scored"
    invalid = f"{lost}; more than {unscored_limit:.0%} is too many." if unscored > unscored_limit * made else ""
    return EvalResult(
        model=", ".join(sorted({row.model for row in rows if row.model})),
        world=", ".join(sorted({row.world for row in rows if row.world})),
        **about,
        judge=judge,
        second_judge=second_judge,
        attempts=attempts,
        questions=tuple(counts),
        pass_at_k=found["pass_at_k"],
        pass_hat_k=found["pass_hat_k"],
        groups={name: _groups(found[f"by {name}"], groups, counts) for name, groups in members.items()},
        cost=_cost(rows, prices),
        agreement=tuple(one.figures for one in comparisons(judged, judge, second_judge)),
        endings={ending: count for ending in Ending if (count := endings[ending])},
        unscored=unscored,
        mean_turns=_mean([row.turns for row in scored]),
        mean_calls=_mean([row.calls for row in scored]),
        visit_share=sum(row.visits for row in scored) / calls if calls else None,
        mean_sampled_tokens=_mean([row.sampled_tokens for row in scored]),
        episode_seconds=sum(row.seconds for row in rows),
        invalid_because=invalid,
    )


def estimates(means: Mapping[str, Mapping[Any, FloatArray]], worlds: Sequence[str] = ()) -> dict[str, dict[Any, Estimate]]:
    """Figures with their intervals, of one draw for all of them.

    ``means``: values [Q] by name and key; NaN: the figure does not rest on that question. ``worlds``: each question's.

    Example: ``estimates({"pass_at_k": {1: shares}})["pass_at_k"][1].interval``
    """
    values = [column for columns in means.values() for column in columns.values()]
    resampled = statistics.resampled_means(np.stack(values, 1), seed=_SEED, worlds=worlds)
    drawn = zip(values, statistics.intervals(resampled), strict=True)
    return {name: {key: _estimate(*next(drawn)) for key in columns} for name, columns in means.items()}


def _estimate(values: FloatArray, interval: Interval) -> Estimate:
    """No interval for one question drawn again and again, or many of one value: a point would pass for certainty."""
    kept = values[np.isfinite(values)]
    if not kept.size:
        return Estimate(value=None, interval=None, questions=0, too_few=values.size)
    spread = interval if kept.size > 1 and interval.high - interval.low > statistics.NO_WIDTH else None
    shown = statistics.constant_interval(kept) or spread
    return Estimate(value=float(kept.mean()), interval=shown, questions=kept.size, too_few=values.size - kept.size)


# Counts and groups --------------------------------------------------------------------------------------------------------


def _counts(rows: Sequence[Episode], questions: Sequence[Question]) -> list[QuestionCounts]:
    made = Counter(row.question for row in rows)
    scored = Counter(row.question for row in rows if row.correct is not None)
    correct = Counter(row.question for row in rows if row.correct)
    several = len({q.meta.get("world") for q in questions}) > 1
    return [
        QuestionCounts(
            id=q.id,
            text_digest=question_id(" ".join(q.text.split())),
            groups=groups_of(q) | ({"world": (str(q.meta.get("world", "")),)} if several else {}),
            attempts=made[q.id],
            scored=scored[q.id],
            correct=correct[q.id],
        )
        for q in questions
    ]


def groups_of(question: Question) -> dict[str, tuple[str, ...]]:
    """What a question belongs to, as its source says: its level (or else its hops), its topics."""
    level, topics = question.meta.get("level"), question.meta.get("topics")
    found = {
        "level": (str(level),) if level not in (None, "") else (),
        "topic": tuple(map(str, topics)) if isinstance(topics, list | tuple) else (),
        "hops": (str(question.hops),) if question.hops is not None and level in (None, "") else (),
    }
    return {name: values for name, values in found.items() if values}


def worlds_of(counts: Sequence[QuestionCounts]) -> list[str]:
    """Each question's world, where there are several; else none."""
    found = [one.groups.get("world", ("",))[0] for one in counts]
    return found if len(set(found)) > 1 else []


def _members(counts: Sequence[QuestionCounts]) -> dict[str, dict[str, np.ndarray]]:
    """Of each grouping's groups which questions are in them, [Q]; a question may be in several."""
    found = {}
    for name in dict.fromkeys(name for one in counts for name in one.groups):
        groups = {group for one in counts for group in one.groups.get(name, ())}
        order = sorted(groups, key=lambda group: (int(group) if group.isdecimal() else 0, group))
        found[name] = {group: np.array([group in one.groups.get(name, ()) for one in counts]) for group in order}
    return found


def _groups(found: dict[str, Estimate], members: dict[str, np.ndarray], counts: Sequence[QuestionCounts]) -> dict[str, Group]:
    groups = {}
    for group, estimate in found.items():
        own = [one for one, is_in in zip(counts, members[group], strict=True) if is_in]
        # Questions of other groups do not rest in this figure; they are not missing from it either.
        within = estimate.model_copy(update={"too_few": len(own) - estimate.questions})
        made, scored = sum(one.attempts for one in own), sum(one.scored for one in own)
        groups[group] = Group(pass_at_1=within, attempts=made, unscored=made - scored)
    return groups


def _mean(values: Sequence[float | None]) -> float | None:
    """None where one of them is not known."""
    return None if not values or None in values else float(np.mean(np.array(values, dtype=np.float64)))


def _cost(rows: Sequence[Episode], prices: Prices | None) -> Cost | None:
    """None without prices. What has no price need not be counted, and an outage before the first turn took no token."""
    if prices is None:
        return None
    total: float | None = 0.0
    for row in (row for row in rows if row.turns or row.ending not in _OUTAGES):
        for count, price in ((row.prompt_tokens, prices.prompt), (row.sampled_tokens, prices.sampled)):
            if price and total is not None:
                total = None if count is None else total + count * price / 1e6
    right = sum(bool(row.correct) for row in rows)
    return Cost(
        prompt_price=prices.prompt,
        sampled_price=prices.sampled,
        total=total,
        attempt=None if total is None else total / len(rows),
        right=None if total is None or not right else total / right,
    )


# Two judges of the same attempts ------------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """Two judges of the same attempts, and the attempts that they differ on."""

    figures: Agreed
    differing: tuple[JudgedAttempt, ...]


def comparisons(judged: Sequence[JudgedAttempt], judge: str, second: str) -> list[Comparison]:
    """The judge with the second one, and with a person (by its verdict before theirs); those that both judged something."""
    pairs: list[tuple[str, Sequence[tuple[JudgedAttempt, bool | None, bool | None]]]] = []
    if second:
        pairs.append((second, [(one, one.by_judge, one.second) for one in judged]))
    if settled := [(one, one.overruled, one.correct) for one in judged if one.overruled is not None]:
        pairs.append(("a person, on what they settled", settled))
    found: list[Comparison] = []
    for other, verdicts in pairs:
        both = [(one, a is not b) for one, a, b in verdicts if None not in (a, b)]
        asked, given = len({one.question for one, _ in both}), ((a, b) for _, a, b in verdicts)
        figures = agreement(given, first=judge, second=other, questions=asked)
        found.append(Comparison(figures, tuple(one for one, differs in both if differs)))
    return found


def agreement(verdicts: Iterable[tuple[bool | None, bool | None]], **names: Any) -> Agreed:
    """Count the pairs of two judges' verdicts; what one of the two could not tell is never a disagreement.

    Cohen (1960): kappa = (observed - expected) / (1 - expected), where expected is the agreement of two judges who decide right
    and wrong as often as these, but independently.
    """
    counts = Counter(verdicts)
    pairs = ((True, True), (False, False), (True, False), (False, True))
    both, neither, first_only, second_only = (counts[pair] for pair in pairs)
    scored, agreed, kappa = both + neither + first_only + second_only, None, None
    if scored:
        agreed = (both + neither) / scored
        first, second = (both + first_only) / scored, (both + second_only) / scored
        expected = first * second + (1 - first) * (1 - second)
        kappa = None if expected == 1.0 else (agreed - expected) / (1 - expected)
    return Agreed(
        both=both,
        neither=neither,
        first_only=first_only,
        second_only=second_only,
        first_unscored=sum(count for (first, _), count in counts.items() if first is None),
        second_unscored=counts[True, None] + counts[False, None],
        agreed=agreed,
        kappa=kappa,
        **names,
    )
