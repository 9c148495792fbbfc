"""The figures over the attempts of a run. Pure: episodes in, figures out, in any order.

Outages (of a tool, the model or the judge) are unscored: in no mean, but counted, and more of them than the limit make the run
invalid. What nobody counted is None, never 0. All intervals come from one draw of questions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import numpy as np

from sanderling.core.record import Question, question_id
from sanderling.core.types import Ending
from sanderling.evaluate.agreement import comparisons
from sanderling.evaluate.episodes import Episode, JudgedAttempt
from sanderling.evaluate.result import (
    Contamination,
    Cost,
    Estimate,
    EvalResult,
    Group,
    GuardFigures,
    QuestionCounts,
    Spending,
)
from sanderling.evaluate.statistics import (
    NO_WIDTH,
    ORDERS,
    FloatArray,
    Interval,
    all_right,
    any_right,
    clustered_error,
    constant_interval,
    intervals,
    majority,
    resampled_ratios,
)
from sanderling.policy.budget import Prices

_SEED = 0
_MANY_ATTEMPTS, _FEWER_ORDERS = 10_000, 32
"""Beyond so many attempts a majority needs fewer orders of each question's: their noise averages out."""
_OUTAGES = frozenset({Ending.POLICY_OUTAGE, Ending.TOOL_OUTAGE, Ending.CANCELLED})


@dataclass(frozen=True)
class RunInfo:
    """What made a result, and what is known of a run beside its attempts."""

    command: str
    seed: int
    version: str
    date: str
    seconds: float
    resumed: int
    unscored_limit: float = 0.02
    judge: str = ""
    judging_command: str = ""
    second_judge: str = ""
    prices: Prices | None = None  # of the agent's tokens
    guard: GuardFigures | None = None
    looks_for_questions: bool = True  # in what was read; not where the questions were made from pages
    judged: Sequence[JudgedAttempt] = ()
    by_hand: int = 0


def summarise(episodes: Iterable[Episode], questions: Sequence[Question], attempts: int, info: RunInfo) -> EvalResult:
    """The figures of a run, of which there is one episode an attempt."""
    rows = sorted(episodes, key=lambda episode: episode.key)
    judged = [row for row in rows if row.correct is not None]
    counts = _counts(rows, questions)
    scored, correct = [c.scored for c in counts], [c.correct for c in counts]
    some, members = any_right(scored, correct, attempts), _members(counts)
    took, right = _took(rows, info.prices), np.array([bool(row.correct) for row in rows], dtype=np.float64)
    means = {
        "pass_at_k": dict(enumerate(some.T, start=1)),
        "pass_hat_k": dict(enumerate(all_right(scored, correct, attempts).T, start=1)),
        "majority": _majority(judged, questions, attempts),
        **{f"by {name}": {g: np.where(of, some[:, 0], nan) for g, of in groups.items()} for name, groups in members.items()},
        "clean": {"": _clean_share(judged, questions)},
    }
    number = {question.id: place for place, question in enumerate(questions)}
    at = [number[row.question] for row in rows]
    by_question = {name: np.bincount(at, of, len(number)).astype(np.float64) for name, of in {**took, "right": right}.items()}
    found, for_each = estimates(means, {name: (by_question[name], by_question["right"]) for name in took})
    names = {"seconds": "seconds", "sampled_tokens": "sampled", "prompt_tokens": "prompt"}
    spent = {total: for_each[name].value for total, name in names.items()}
    spent |= {f"{name}_interval": for_each[name].interval for name in names.values()}
    made, unscored, limit = len(rows), len(rows) - len(judged), info.unscored_limit
    invalid = f"{unscored} of {made} attempts ({unscored / made:.1%}) could not be scored; more than {limit:.0%} is too many."
    return EvalResult(
        **_what_made_it(rows, info),
        **_counts_and_means(rows, judged),
        attempts=attempts,
        questions=tuple(counts),
        pass_at_k=found["pass_at_k"],
        pass_hat_k=found["pass_hat_k"],
        majority=found["majority"],
        clustered_error=_finite(clustered_error(scored, correct)),
        groups={name: _groups(found[f"by {name}"], groups, counts) for name, groups in members.items()},
        spending=Spending.model_validate(spent),
        cost=_cost(took["cost"], for_each["cost"], info.prices),
        contamination=_contamination(rows, found["clean"][""], applies=info.looks_for_questions),
        agreement=tuple(one.figures for one in comparisons(info.judged, info.judge, info.second_judge)),
        unscored=unscored,
        invalid_because=invalid if unscored > limit * made else "",
    )


# Figures and their intervals ----------------------------------------------------------------------------------------------


def estimates(
    means: Mapping[str, Mapping[Any, FloatArray]], ratios: Mapping[str, tuple[FloatArray, FloatArray]]
) -> tuple[dict[str, dict[Any, Estimate]], dict[str, Estimate]]:
    """Figures with their intervals, of one draw for all of them.

    ``means``: values [Q] by name and key; NaN: the figure does not rest on that question. ``ratios``: sums over sums (both
    [Q]); a NaN above: nobody counted, and there is no figure.

    Example: ``estimates({"pass_at_k": {1: shares}}, {})[0]["pass_at_k"][1].interval``
    """
    above, below = list[FloatArray](), list[FloatArray]()
    for values in (values for columns in means.values() for values in columns.values()):
        known = np.isfinite(values)
        above.append(np.where(known, values, 0.0))
        below.append(known.astype(np.float64))
    for top, bottom in ratios.values():
        known = float(np.isfinite(top).all())
        above.append(np.nan_to_num(top) * known)
        below.append(bottom * known)
    drawn = intervals(resampled_ratios(np.stack(above, 1), np.stack(below, 1), seed=_SEED))
    figures = zip(above, below, drawn, strict=True)
    of_means = {name: {key: _mean_of(*next(figures)) for key in columns} for name, columns in means.items()}
    return of_means, {name: _ratio_of(*next(figures)) for name in ratios}


def _mean_of(above: FloatArray, below: FloatArray, interval: Interval) -> Estimate:
    """Rests on the questions that have a value."""
    values = above[below > 0]
    if not values.size:
        return Estimate(value=None, interval=None, questions=0, too_few=below.size)
    shown = constant_interval(values) or _with_spread(interval, values.size)
    return Estimate(value=float(values.mean()), interval=shown, questions=values.size, too_few=below.size - values.size)


def _ratio_of(above: FloatArray, below: FloatArray, interval: Interval) -> Estimate:
    """Rests on all questions."""
    if not below.any():
        return Estimate(value=None, interval=None, questions=0, too_few=below.size)
    value, shown = float(above.sum() / below.sum()), _with_spread(interval, below.size)
    return Estimate(value=value, interval=shown, questions=below.size, too_few=0)


def _with_spread(interval: Interval, questions: int) -> Interval | None:
    """None for one question drawn again and again, or many of one value: a point would pass for certainty."""
    return interval if questions > 1 and interval.high - interval.low > NO_WIDTH else None


# Counts, means and groups -------------------------------------------------------------------------------------------------


def _counts(rows: Sequence[Episode], questions: Sequence[Question]) -> list[QuestionCounts]:
    made = Counter(row.question for row in rows)
    scored = Counter(row.question for row in rows if row.correct is not None)
    correct = Counter(row.question for row in rows if row.correct)
    return [
        QuestionCounts(
            id=q.id,
            text_digest=question_id(" ".join(q.text.split())),
            hops=q.hops,
            groups=groups_of(q),
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


def _members(counts: Sequence[QuestionCounts]) -> dict[str, dict[str, np.ndarray]]:
    """Of each grouping's groups which questions are in them, [Q]; a question may be in several."""
    found = {}
    for name in dict.fromkeys(name for one in counts for name in one.groups):
        groups = {group for one in counts for group in one.groups.get(name, ())}
        order = sorted(groups, key=lambda group: (int(group) if group.isdecimal() else 0, group))
        found[name] = {group: np.array([group in one.groups.get(name, ()) for one in counts]) for group in order}
    return found


def _groups(
    found: Mapping[str, Estimate], members: Mapping[str, np.ndarray], counts: Sequence[QuestionCounts]
) -> dict[str, Group]:
    groups = {}
    for group, estimate in found.items():
        own = [one for one, is_in in zip(counts, members[group], strict=True) if is_in]
        # Questions of other groups do not rest in this figure; they are not missing from it either.
        within = estimate.model_copy(update={"too_few": len(own) - estimate.questions})
        made, scored = sum(one.attempts for one in own), sum(one.scored for one in own)
        groups[group] = Group(pass_at_1=within, attempts=made, unscored=made - scored)
    return groups


def _what_made_it(rows: Sequence[Episode], info: RunInfo) -> dict[str, Any]:
    found = {name: value for name, value in vars(info).items() if name in EvalResult.model_fields}
    models, worlds = ({name for name in of if name} for of in ([row.model for row in rows], [row.world for row in rows]))
    return {"model": ", ".join(sorted(models)), "world": ", ".join(sorted(worlds)), **found}


def _counts_and_means(rows: Sequence[Episode], judged: Sequence[Episode]) -> dict[str, Any]:
    """What is counted and averaged, without intervals; by the names of `EvalResult`."""
    endings = Counter(row.ending for row in rows)
    calls = sum(row.calls for row in judged)
    return {
        "endings": {ending: n for ending in Ending if (n := endings[ending])},
        "mean_turns": _mean([row.turns for row in judged]),
        "mean_calls": _mean([row.calls for row in judged]),
        "visit_share": sum(row.visits for row in judged) / calls if calls else None,
        "mean_sampled_tokens": _mean([row.sampled_tokens for row in judged]),
        "episode_seconds": sum(row.seconds for row in rows),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    """None where one of them is not known."""
    return None if not values or None in values else float(np.mean(np.array(values, dtype=np.float64)))


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _clean_share(judged: Sequence[Episode], questions: Sequence[Question]) -> FloatArray:
    """The share of right ones among the attempts that did not read their question, [Q]; NaN without any."""
    scored = Counter(row.question for row in judged if not row.contaminated)
    right = Counter(row.question for row in judged if not row.contaminated and row.correct)
    return np.array([right[q.id] / scored[q.id] if scored[q.id] else nan for q in questions])


def _contamination(rows: Sequence[Episode], without: Estimate, *, applies: bool) -> Contamination:
    looked_at = [row for row in rows if row.contaminated is not None] if applies else []
    return Contamination(
        applies=applies,
        attempts=len(looked_at),
        contaminated=sum(bool(row.contaminated) for row in looked_at),
        without=without if looked_at else None,
    )


# The majority, and what attempts took -------------------------------------------------------------------------------------


def _majority(judged: Sequence[Episode], questions: Sequence[Question], attempts: int) -> dict[int, FloatArray]:
    """The chance of each question that the majority of k attempts is right, [Q], at powers of two and all attempts."""
    ks = [k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k < attempts] + [attempts]
    orders = ORDERS if len(judged) <= _MANY_ATTEMPTS else _FEWER_ORDERS
    by_question: dict[str, list[Episode]] = {question.id: [] for question in questions}
    for row in judged:
        by_question[row.question].append(row)
    chances = [
        majority([bool(row.correct) for row in own], [row.vote for row in own], ks, seed=_SEED, orders=orders)
        for own in by_question.values()
    ]
    return dict(zip(ks, np.stack(chances, 1), strict=True))


def _took(rows: Sequence[Episode], prices: Prices | None) -> dict[str, FloatArray]:
    """Seconds, tokens and money of each attempt, [A]; NaN where its server does not say what it took."""
    # An outage before the first turn took no token; one of no time was looked at by no clock.
    nothing = np.array([not row.turns and row.ending in _OUTAGES for row in rows], dtype=np.bool_)

    def known(counts: Sequence[float | None]) -> FloatArray:
        found = np.array([nan if count is None else count for count in counts], dtype=np.float64)
        return np.where(np.isnan(found) & nothing, 0.0, found)

    each = {
        "seconds": known([row.seconds or None for row in rows]),
        "sampled": known([row.sampled_tokens for row in rows]),
        "prompt": known([row.prompt_tokens for row in rows]),
    }
    cost = np.full(len(rows), 0.0 if prices else nan)
    for name, price in (("prompt", prices.prompt), ("sampled", prices.sampled)) if prices else ():
        cost = cost + price * each[name] / 1e6 if price else cost  # a price of 0 asks for no count
    return {**each, "cost": cost}


def _cost(each: FloatArray, right: Estimate, prices: Prices | None) -> Cost | None:
    """None without prices."""
    if prices is None:
        return None
    total = _finite(float(each.sum()))
    return Cost(
        prompt_price=prices.prompt,
        sampled_price=prices.sampled,
        total=total,
        attempt=None if total is None else total / each.size,
        right=right.value,
        right_interval=right.interval,
    )
