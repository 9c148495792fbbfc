"""The figures over the attempts of a run. Pure: episodes in, figures out, in any order.

Outages (of a tool, the model or the judge) are unscored: in no mean, but counted, and more of them than the limit make the run
invalid. What nobody counted is None, never 0. All intervals come from one draw of questions.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from typing import Any

import numpy as np

from sanderling.core.record import Question, question_id
from sanderling.core.types import Ending
from sanderling.evaluate.agreement import Verdicts, agreements, has_known_scale
from sanderling.evaluate.episodes import Episode, JudgedAttempt, Key
from sanderling.evaluate.of_k import (
    ORDERS,
    all_right,
    any_right,
    attempts_error,
    average_at_k,
    best_of,
    clustered_error,
    majority,
    tries,
)
from sanderling.evaluate.result import (
    BrowseShare,
    Contamination,
    Cost,
    Estimate,
    EvalResult,
    Group,
    GuardFigures,
    Latency,
    QuestionCounts,
    RecordedShare,
    Spending,
)
from sanderling.evaluate.statistics import NO_WIDTH, FloatArray, Interval, constant_interval, intervals, resampled_ratios
from sanderling.policy.budget import Prices

LOGPROB, CONFIDENCE = "mean_logprob", "confidence"
"""Scores for the best of k that are made here: how likely the model found what it said, and what answers claim."""
_SEED = 0
_MANY_ATTEMPTS = 10_000
"""Beyond so many attempts a majority needs fewer orders of each question's: their noise averages out."""
_FEWER_ORDERS = 32
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
    by_hand: int = 0  # attempts that a person has judged
    recorded: RecordedShare | None = None  # over a recorded world: how much of what was asked it holds
    uneven: bool = False  # others' run: its questions were tried as often as they were, at most the given number of times
    prices: Prices | None = None  # of the agent's tokens
    guard: GuardFigures | None = None
    looks_for_questions: bool = True  # in what was read; not where the questions were made from pages
    judged: Sequence[JudgedAttempt] = ()
    scores: Mapping[str, Mapping[Key, float]] = field(default_factory=dict)  # further ones, for the best of several


def summarise(episodes: Iterable[Episode], questions: Sequence[Question], attempts: int, info: RunInfo) -> EvalResult:
    """The figures of a run. Raises ValueError for two episodes of one attempt, a missing one, or a stranger's."""
    rows = sorted(episodes, key=lambda episode: episode.key)
    _check_attempts(rows, questions, attempts, uneven=info.uneven)
    judged = [row for row in rows if row.correct is not None]
    number = {question.id: place for place, question in enumerate(questions)}
    counts = _counts(rows, questions)
    scored, correct = [c.scored for c in counts], [c.correct for c in counts]
    some, ks = any_right(scored, correct, attempts), _powers_of_two(attempts)
    members = _members(counts)
    taken, verdicts = _Taken(rows, number, info.prices), Verdicts(info.judged, number)
    best = _best_of(judged, number, info, ks)

    waiting, every = Estimates(), range(1, attempts + 1)
    waiting.means("pass_at_k", dict(zip(every, some.T, strict=True)))
    waiting.means("pass_hat_k", dict(zip(every, all_right(scored, correct, attempts).T, strict=True)))
    for name, groups in members.items():
        waiting.means(f"by {name}", {group: np.where(inside, some[:, 0], nan) for group, inside in groups.items()})
    waiting.means("majority", dict(zip(ks, _majorities(judged, questions, ks).T, strict=True)))
    for name, columns in best.items():
        waiting.means(f"best of {name}", columns)
    waiting.means("without", {"contaminated": _clean_share(judged, number)})
    waiting.ratios("taken", taken.ratios())
    waiting.means("verdicts", verdicts.means())
    waiting.ratios("of those attempted", verdicts.ratios())
    found = waiting.made(seed=_SEED)
    return EvalResult(
        **_what_made_it(rows, info),
        **_counts_and_means(rows, judged, questions),
        attempts=attempts,
        questions=tuple(counts),
        pass_at_k=found["pass_at_k"],
        pass_hat_k=found["pass_hat_k"],
        majority=found["majority"],
        best_of={name: found[f"best of {name}"] for name in best},
        clustered_error=_finite(clustered_error(scored, correct)),
        attempts_error=_finite(attempts_error(scored, correct)),
        groups={name: _groups(found[f"by {name}"], members[name], counts) for name in members},
        spending=taken.spending(found["taken"]),
        cost=taken.cost(found["taken"]["cost"]),
        guard=info.guard,
        contamination=_contamination(rows, found["without"]["contaminated"], applies=info.looks_for_questions),
        score=found["verdicts"].get("score"),
        grades=verdicts.grades(found["verdicts"], found["of those attempted"]),
        sets=verdicts.sets(found["verdicts"]),
        confidence=verdicts.confidence(),
        agreement=agreements(info.judged, info.judge, info.second_judge),
        pass_at_1_bounds=average_at_k([c.attempts for c in counts], scored, correct).bounds,
        invalid_because=_invalid(len(rows) - len(judged), len(rows), info.unscored_limit),
    )


# Figures and their intervals ----------------------------------------------------------------------------------------------


class Estimates:
    """Figures by name and key, each a value per question, that wait for their intervals: one draw serves them all.

    Example: ``waiting.means("pass_at_k", {1: shares}); waiting.made(seed=0)["pass_at_k"][1].interval``
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._figures: list[tuple[str, Hashable, bool, FloatArray, FloatArray]] = []

    def means(self, name: str, columns: Mapping[int, FloatArray] | Mapping[str, FloatArray]) -> None:
        """Values [Q] by k or by group, of which the mean is taken; NaN: the figure does not rest on that question."""
        self._names.append(name)
        for key, values in columns.items():
            known = np.isfinite(values)
            self._figures.append((name, key, True, np.where(known, values, 0.0), known.astype(np.float64)))

    def ratios(self, name: str, columns: Mapping[str, tuple[FloatArray, FloatArray]]) -> None:
        """Sums over sums (both [Q]); a NaN above: nobody counted, and there is no figure."""
        self._names.append(name)
        for key, (above, below) in columns.items():
            known = float(np.isfinite(above).all())
            self._figures.append((name, key, False, np.nan_to_num(above) * known, below * known))

    def made(self, *, seed: int) -> dict[str, dict]:
        """All of them, by name and key."""
        above, below = np.stack([one[3] for one in self._figures], 1), np.stack([one[4] for one in self._figures], 1)
        drawn = intervals(resampled_ratios(above, below, seed=seed))
        found: dict[str, dict] = {name: {} for name in self._names}
        for (name, key, is_mean, top, bottom), interval in zip(self._figures, drawn, strict=True):
            found[name][key] = _estimate(top, bottom, interval, is_mean=is_mean)
        return found


def _estimate(above: FloatArray, below: FloatArray, interval: Interval, *, is_mean: bool) -> Estimate:
    """A ratio rests on all questions, a mean on those that have a value."""
    in_it = below > 0 if is_mean else np.ones(below.size, dtype=np.bool_)
    questions = int(in_it.sum())
    if not below.any():
        return Estimate(value=None, interval=None, questions=0, too_few=below.size)
    certain = constant_interval(above[in_it]) if is_mean else None
    # One question drawn again and again, or many of one value, have no spread: a point would pass for certainty.
    tells = certain is not None or (questions > 1 and interval.high - interval.low > NO_WIDTH)
    value, shown = float(above.sum() / below.sum()), (certain or interval) if tells else None
    return Estimate(value=value, interval=shown, questions=questions, too_few=below.size - questions)


# Counts, means and groups -------------------------------------------------------------------------------------------------


def _check_attempts(rows: Sequence[Episode], questions: Sequence[Question], attempts: int, *, uneven: bool) -> None:
    wanted = {(question.id, attempt) for question in questions for attempt in range(attempts)}
    found = Counter(row.key for row in rows)
    tried = {row.question for row in rows}
    missing = {(question.id, 0) for question in questions if question.id not in tried} if uneven else wanted - found.keys()
    odd = found.keys() - wanted or {key for key, n in found.items() if n > 1} or missing
    if odd:
        question, attempt = min(odd)
        raise ValueError(f"episodes do not match the attempts: question {question!r}, attempt {attempt}")


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
    """What a question belongs to, as its source says: its level (or else its hops), its topics, its benchmark's name."""
    level, topics = question.meta.get("level"), question.meta.get("topics")
    found = {
        "level": (str(level),) if level not in (None, "") else (),
        "topic": tuple(map(str, topics)) if isinstance(topics, list | tuple) else (),
        "set": (str(named),) if (named := question.meta.get("set")) else (),
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
    estimates: Mapping[str, Estimate], inside: Mapping[str, np.ndarray], counts: Sequence[QuestionCounts]
) -> dict[str, Group]:
    found = {}
    for group, estimate in estimates.items():
        own = [one for one, is_in in zip(counts, inside[group], strict=True) if is_in]
        # Questions of other groups do not rest in this figure; they are not missing from it either.
        within = estimate.model_copy(update={"too_few": len(own) - estimate.questions})
        made, scored = sum(one.attempts for one in own), sum(one.scored for one in own)
        found[group] = Group(pass_at_1=within, attempts=made, unscored=made - scored)
    return found


def _what_made_it(rows: Sequence[Episode], info: RunInfo) -> dict[str, Any]:
    names = ("judge", "second_judge", "by_hand", "recorded", "command", "judging_command", "seed", "version", "date")
    models, worlds = ({name for name in of if name} for of in ([row.model for row in rows], [row.world for row in rows]))
    found = {name: getattr(info, name) for name in (*names, "seconds", "resumed")}
    return {"model": ", ".join(sorted(models)), "world": ", ".join(sorted(worlds)), **found}


def _counts_and_means(rows: Sequence[Episode], judged: Sequence[Episode], questions: Sequence[Question]) -> dict[str, Any]:
    """What is counted and averaged, without intervals; by the names of `EvalResult`."""
    can_be_scored = {one.id for one in questions if any(answer.strip() for answer in one.answers)}
    endings = Counter(row.ending for row in rows)
    right, wrong = [row for row in judged if row.correct], [row for row in judged if not row.correct]

    def ended(row: Episode) -> bool:
        """Whether it came to an end that a judge can judge; others' records often do not say how."""
        return row.vote is not None if row.ending is None else row.ending.scored

    def spread(of: Callable[[Episode], int]) -> dict[str, dict[int, int]]:
        found = {"right": Counter(map(of, right)), "wrong": Counter(map(of, wrong))}
        return {name: dict(sorted(counts.items())) for name, counts in found.items() if counts}

    return {
        "endings": {ending: n for ending in Ending if (n := endings[ending])},
        "unscored": len(rows) - len(judged),
        "judge_outages": sum(row.correct is None and row.question in can_be_scored and ended(row) for row in rows),
        "mean_turns": _mean([row.turns for row in judged]),
        "mean_calls": _mean([row.calls for row in judged]),
        "browse": BrowseShare(overall=_browse(judged), correct=_browse(right), wrong=_browse(wrong)),
        "mean_sampled_tokens": _mean([row.sampled_tokens for row in judged]),
        "mean_context_tokens": _mean([row.context_tokens for row in judged]),
        "turn_counts": spread(lambda row: row.turns),
        "call_counts": spread(lambda row: row.calls),
        "format_accuracy": _format_accuracy(judged),
        "latency": _latency(judged, right),
        "episode_seconds": sum(row.seconds for row in rows),
    }


def _format_accuracy(rows: Sequence[Episode]) -> float | None:
    odd, turns = [row.odd_turns for row in rows], sum(row.turns for row in rows)
    return 1.0 - sum(n for n in odd if n is not None) / turns if turns and None not in odd else None


def _browse(rows: Sequence[Episode]) -> float | None:
    calls = sum(row.calls for row in rows)
    return sum(row.visits for row in rows) / calls if calls else None


def _latency(judged: Sequence[Episode], right: Sequence[Episode]) -> Latency:
    seconds, of_right = [row.seconds or None for row in judged], [row.seconds or None for row in right]
    return Latency(
        mean=_mean(seconds),
        median=_median(seconds),
        right_mean=_mean(of_right),
        right_median=_median(of_right),
        model=_mean([row.model_seconds for row in judged]),
        tools=_mean([row.tool_seconds for row in judged]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """None where one of them is not known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _median(values: Sequence[float | None]) -> float | None:
    return None if not values or None in values else float(np.median(np.array(values, dtype=np.float64)))


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _invalid(unscored: int, total: int, limit: float) -> str:
    if unscored <= limit * total:
        return ""
    return f"{unscored} of {total} attempts ({unscored / total:.1%}) could not be scored; more than {limit:.0%} is too many."


# One answer out of several ------------------------------------------------------------------------------------------------


def _powers_of_two(attempts: int) -> list[int]:
    """And all attempts."""
    return [k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k < attempts] + [attempts]


def _majorities(judged: Sequence[Episode], questions: Sequence[Question], ks: Sequence[int]) -> FloatArray:
    by_question: dict[str, list[Episode]] = {question.id: [] for question in questions}
    for row in judged:
        by_question[row.question].append(row)
    every = [tries([bool(row.correct) for row in rows], [row.vote for row in rows]) for rows in by_question.values()]
    return majority(every, ks, seed=_SEED, orders=ORDERS if len(judged) <= _MANY_ATTEMPTS else _FEWER_ORDERS)


def _best_of(
    judged: Sequence[Episode], number: Mapping[str, int], info: RunInfo, ks: Sequence[int]
) -> dict[str, dict[int, FloatArray]]:
    """By the name of a score and by k the chance of each question, [Q], that the attempt with the highest one is right.

    An attempt without an answer is chosen last; a question of which an answered attempt has no score is in no such figure.
    """
    at, right = [number[row.question] for row in judged], [bool(row.correct) for row in judged]
    found = {}
    for name, scores in _scores(judged, info).items():
        every = [-inf if row.vote is None else scores.get(row.key, nan) for row in judged]
        if any(map(isfinite, every)):
            found[name] = dict(zip(ks, best_of(at, right, every, len(number), ks).T, strict=True))
    return found


def _scores(judged: Sequence[Episode], info: RunInfo) -> dict[str, Mapping[Key, float]]:
    """All scores by name, higher being better."""
    own = {row.key: row.mean_logprob for row in judged if row.mean_logprob is not None}
    claims = {one.key: one.confidence for one in info.judged if one.confidence is not None}
    claims = {key: claim for key, claim in claims.items() if has_known_scale(claim)}  # 0.95 may mean 95, or less than one
    return {name: scores for name, scores in ((LOGPROB, own), (CONFIDENCE, claims)) if scores} | dict(info.scores)


def _clean_share(judged: Sequence[Episode], number: Mapping[str, int]) -> FloatArray:
    """The share of right ones among the attempts that did not read their question, [Q]; NaN without any."""
    clean = [row for row in judged if not row.contaminated]
    at = np.array([number[row.question] for row in clean], dtype=np.int64)
    scored = np.bincount(at, minlength=len(number))
    right = np.bincount(at, weights=[bool(row.correct) for row in clean], minlength=len(number))
    return np.divide(right, scored, out=np.full(len(number), nan), where=scored > 0)


def _contamination(rows: Sequence[Episode], without: Estimate, *, applies: bool) -> Contamination:
    looked_at = [row for row in rows if row.contaminated is not None] if applies else []
    read = [row.question for row in looked_at if row.contaminated]
    return Contamination(
        applies=applies,
        attempts=len(looked_at),
        contaminated=len(read),
        questions=len(set(read)),
        without=without if looked_at else None,
    )


# What attempts took -------------------------------------------------------------------------------------------------------


class _Taken:
    """Seconds, tokens and money of each attempt, [A]; one whose server does not say what it took leaves the sum unknown."""

    def __init__(self, rows: Sequence[Episode], number: Mapping[str, int], prices: Prices | None) -> None:
        self._at, self._questions = np.array([number[row.question] for row in rows], dtype=np.int64), len(number)
        self._prices = prices
        self._right = self._by_question(np.array([bool(row.correct) for row in rows], dtype=np.float64))
        nothing = np.array([not row.turns and row.ending in _OUTAGES for row in rows], dtype=np.bool_)
        seconds = np.array([row.seconds for row in rows], dtype=np.float64)
        self._each = {
            "seconds": np.where((seconds > 0) | nothing, seconds, nan),
            "sampled": _known([row.sampled_tokens for row in rows], nothing),
            "prompt": _known([row.prompt_tokens for row in rows], nothing),
        }
        cost = np.full(len(rows), 0.0 if prices else nan)
        for name, price in (("prompt", prices.prompt), ("sampled", prices.sampled)) if prices else ():
            cost = cost + price * self._each[name] / 1e6 if price else cost  # a price of 0 asks for no count
        self._each["cost"] = cost

    def ratios(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """For each right answer: sums over sums of right ones by question, as `Estimates` takes them."""
        return {name: (self._by_question(each), self._right) for name, each in self._each.items()}

    def spending(self, found: Mapping[str, Estimate]) -> Spending:
        seconds, sampled, prompt = (found[name] for name in ("seconds", "sampled", "prompt"))
        return Spending(
            seconds=seconds.value, seconds_interval=seconds.interval,
            sampled_tokens=sampled.value, sampled_interval=sampled.interval,
            prompt_tokens=prompt.value, prompt_interval=prompt.interval,
        )  # fmt: skip

    def cost(self, right: Estimate) -> Cost | None:
        """None without prices."""
        if self._prices is None:
            return None
        each = self._each["cost"]
        total = _finite(float(each.sum()))
        return Cost(
            prompt_price=self._prices.prompt,
            sampled_price=self._prices.sampled,
            total=total,
            attempt=None if total is None else total / each.size,
            right=right.value,
            right_interval=right.interval,
        )

    def _by_question(self, each: FloatArray) -> FloatArray:
        return np.bincount(self._at, weights=each, minlength=self._questions).astype(np.float64)


def _known(counts: Sequence[int | None], nothing: np.ndarray) -> FloatArray:
    """[A]; NaN where not known, but 0 where nothing was begun: an outage before the first turn took no token."""
    found = np.array([nan if count is None else count for count in counts], dtype=np.float64)
    return np.where(np.isnan(found) & nothing, 0.0, found)
