"""Whether information gain can teach a policy, said before anything is trained: figures of a few hundred rollouts.

Gains can fail in three ways, each with its figure. The *probe* may be foreign: an accepted answer is less likely behind it than
where the policy itself wrote that answer. Gains may not see *needed visits*, which are the first to bring a fact of
``meta.facts``: so there is the AUC of gain for these against other visits, for the answer's fact and for those before it. And
they may say nothing that *outcomes* do not say. A turn's worth can be estimated where rollouts of a group share their first
calls: the mean outcome of the others that also took the turn, less that of all others that stood before it. What gains add to
the R² that GRPO's advantages have over that worth, on questions which the fit has not seen, is what they can teach. Beside it
stands what each turn's own gain would add, which credit may lose, and knowing which visits are needed. That is by a fit, which
gives each part the weight that it deserves. Training adds the parts as they are: so there is the correlation of the whole
advantage with worth, too. Importable without torch.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sanderling.core.chat import Tokenizer
from sanderling.core.record import Node, NodeKind, Question, Trajectory, turn_indices
from sanderling.rl.credit import Components, GrpoConfig, grpo
from sanderling.rl.gain import GainConfig, Probe, Target, contexts, facts_of, forced
from sanderling.rl.table import Graded, TurnTable, calls_made
from sanderling.train.rows import FloatArray, IntArray, Scorer, ScoreRequest
from sanderling.world.addresses import canonical_url

FOREIGN = 1.0  # nats a token that answers lose behind a foreign probe
LEAST_AUC = 0.75  # of needed visits
LEAST_ADDED = 0.02  # R² that gains add to outcomes
_LEAST_OTHERS = 4  # rollouts that share a turn, or the calls before it, without which its worth is not known
_LEAST_QUESTIONS = 8  # without which nothing is held against worth: an interval over fewer is too narrow
_LEAST = 10  # visits or turns of a kind, without which a figure says nothing
_RESAMPLES = 400
FINAL, BEFORE, OTHER = "brings the answer", "brings a fact before it", "brings neither"


@dataclass(frozen=True)
class Figure:
    """A figure, its 95% interval over questions (None: there is one question only), and how many rows it is of."""

    value: float
    interval: tuple[float, float] | None
    n: int

    def is_below(self, least: float) -> bool:
        """For certain."""
        return self.interval is not None and self.interval[1] < least

    def __str__(self) -> str:
        between = "" if self.interval is None else "{:.3f} to {:.3f}; ".format(*self.interval)
        return f"{self.value:.3f} ({between}n = {self.n:,})"


@dataclass(frozen=True)
class ProbeFigures:
    """The probe at the prompts of right answers; nats a token, means over rollouts. None: no rollout was right."""

    prefix: str  # the commonest one's
    own: float | None  # of the answer where the policy wrote it
    behind: float | None  # of the likeliest accepted answer behind the probe
    probe: float | None  # of the probe itself
    written: float | None  # share of answering turns that hold their question's probe; None: none answers

    @property
    def is_foreign(self) -> bool:
        return self.own is not None and self.behind is not None and self.behind < self.own - FOREIGN


@dataclass(frozen=True)
class GainCheck:
    """What a few hundred rollouts say. None: they do not tell."""

    rollouts: int
    questions: int
    right: float  # mean outcome
    missed: float | None  # share of wrong rollouts that leave out a needed page. None: none is wrong, or pages are not known
    scored: int  # turns with a gain
    cut: int  # rollouts that are longer than the model reads, and measured up to there
    facts: int  # milestones that are measured, of all questions
    probe: ProbeFigures
    auc_final: Figure | None
    auc_before: Figure | None
    within: float | None  # share of the variance of gains' credit that lies within trajectories
    config: GainConfig  # how these gains were measured
    gains: dict[str, list[float]]  # by what a visit brings, sorted
    known: float  # share of turns whose worth is known
    company: float  # share of turns that another rollout of the group in which credit is made took from the same state
    outcome_r2: Figure | None = None  # of GRPO's advantages over turns' worth
    added_r2: Figure | None = None  # what gains' credit adds to it
    own_r2: Figure | None = None  # what each turn's own gain would add in its place
    needed_r2: Figure | None = None  # what knowing needed visits would add in their place
    outcome_r: Figure | None = None  # correlation of GRPO's advantages with turns' worth
    advantage_r: Figure | None = None  # and of the estimator's, gains and outcomes as it weighs them

    @property
    def is_worth_it(self) -> bool:
        """Whether nothing speaks against it, and gains add something for certain."""
        added = self.added_r2
        return not self.reasons and added is not None and added.interval is not None and added.interval[0] > 0

    @property
    def reasons(self) -> list[str]:
        """What speaks against it."""
        found: list[str] = []
        if self.probe.is_foreign:
            advice = "these rollouts may be another model's" if self.config.probe is None else "leave gain.probe out"
            found.append(
                f"the probe is foreign to the policy (answers have {self.probe.behind:.2f} nats a token behind it, "
                f"{self.probe.own:.2f} where they were written: {advice})"
            )
        if self.config.milestones and not self.facts:
            found.append(
                "there are no milestones (no rollout names a fact that its question does not: leave gain.milestones out)"
            )
        if self.auc_before is not None and self.auc_before.is_below(LEAST_AUC):
            advice = "" if self.config.milestones else "; gain.milestones=true measures the facts themselves"
            found.append(f"they do not see needed visits before the last (AUC {self.auc_before}{advice})")
        elif self.auc_final is not None and self.auc_final.is_below(LEAST_AUC):
            found.append(f"they do not see the visits that bring the answer (AUC {self.auc_final})")
        if self.added_r2 is not None and self.added_r2.is_below(LEAST_ADDED):
            found.append(self._adds(self.added_r2))
        return found

    def _adds(self, added: Figure) -> str:
        most = "" if self.needed_r2 is None else f", and knowing needed visits {self.needed_r2.value:.3f}"
        own = self.own_r2.value if self.own_r2 else added.value
        lost = (
            f", each turn's own gain {own:.3f} (own_turn with a smaller gamma keeps more of it)"
            if own >= added.value + LEAST_ADDED
            else ""
        )
        return f"they add {added} to the R² of outcomes{lost}{most}"

    @property
    def sentence(self) -> str:
        """Worth it or not, and why."""
        if self.scored == 0:
            why = f"; {self.cut:,} are longer than the model reads" if self.cut else ""
            return f"It cannot be said whether gains can teach: no turn of these rollouts has one{why}."
        if self.reasons:
            return f"Gains are not worth it here: {', and '.join(self.reasons)}."
        if self.added_r2 is None:
            return (
                "It cannot be said whether gains can teach: rollouts share their first calls in too few questions. "
                "Make 16 or more of each of 30 questions."
            )
        if not self.is_worth_it:
            return f"It cannot be said yet whether gains can teach: {self._adds(self.added_r2)}. Make more rollouts."
        seen = "" if self.auc_before is None else f", and see needed visits before the last (AUC {self.auc_before.value:.2f})"
        told = f"Gains are worth a try: they add {self.added_r2.value:+.3f} to the R² of outcomes{seen}."
        if self.outcome_r and self.advantage_r:
            whole, outcomes = self.advantage_r.value, self.outcome_r.value
            told += f" Whole advantages correlate {whole:.2f} with turns' worth, GRPO's {outcomes:.2f}."
        return told


def check_gains(
    batch: Sequence[Graded],
    table: TurnTable,
    credit: Components,
    targets: Mapping[str, Sequence[Target]],
    tokenizer: Tokenizer,
    scorer: Scorer,
    config: GainConfig,
    cut: int = 0,
) -> GainCheck:
    """The figures of a batch whose gains are measured so, of these ``targets``; ``table`` and ``credit`` are of the batch."""
    _, asked = np.unique([one.trajectory.question.id for one in batch], return_inverse=True)
    questions: IntArray = asked[table.trajectory]
    brings = np.array([kind for one in batch for kind in visits_bring(one.trajectory)], dtype=object)
    brings[~table.gain_scored] = None
    outcomes = [one.outcome for one in batch if one.outcome is not None]

    def auc(kind: str) -> Figure | None:
        visits = np.flatnonzero((brings == kind) | (brings == OTHER))
        needed = brings[visits] == kind
        if min(needed.sum(), (~needed).sum()) < _LEAST:
            return None
        return _resampled(lambda at: _auc(table.gain[visits[at]], needed[at]), questions[visits])

    needed = np.where((brings == FINAL) | (brings == BEFORE), 1.0, 0.0)
    worth, weight = turns_worth(batch, table)
    return GainCheck(
        rollouts=len(batch),
        questions=len({one.trajectory.question.id for one in batch}),
        right=float(np.mean(outcomes)) if outcomes else 0.0,
        missed=_share_missed(batch),
        scored=int(table.gain_scored.sum()),
        cut=cut,
        facts=sum(len(found) - 1 for found in targets.values()),
        probe=probe_figures(batch, {name: found[0] for name, found in targets.items()}, tokenizer, scorer),
        auc_final=auc(FINAL),
        auc_before=auc(BEFORE),
        within=_share_within(credit.gain, table.trajectory),
        config=config,
        gains={kind: sorted(map(float, table.gain[brings == kind])) for kind in (FINAL, BEFORE, OTHER)},
        known=float((weight > 0).sum() / max(1, len(table))),
        company=float((np.bincount(table.state)[table.state] > 1).sum() / max(1, len(table))),
        **_explained(table, credit, worth, weight, questions, needed),
    )


# -- the probe ---------------------------------------------------------------------------------------------------------------


def probe_figures(batch: Sequence[Graded], answers: Mapping[str, Target], tokenizer: Tokenizer, scorer: Scorer) -> ProbeFigures:
    """How the probe fares at the prompts of right answers, against what the policy wrote there itself."""
    asked = [found for one in batch if one.outcome and (found := _own_answer(one.trajectory, answers, tokenizer))]
    rows = [[float(values.mean()) for values in found] for found in scorer.score_many(asked)]
    last = [(answers.get(one.trajectory.question.id), _answering(one.trajectory)) for one in batch]
    written = [target.probe.prefix in turn.text for target, turn in last if target and turn]
    probes = Counter(target.probe.prefix for target in answers.values()).most_common(1)

    def mean(values: Iterable[float]) -> float | None:
        found = list(values)
        return float(np.mean(found)) if found else None

    return ProbeFigures(
        prefix=probes[0][0] if probes else "",
        own=mean(row[0] for row in rows),
        behind=mean(max(row[2:]) for row in rows),
        probe=mean(row[1] for row in rows),
        written=mean(written),
    )


def _answering(trajectory: Trajectory) -> Node | None:
    """The last turn, where it answers."""
    last = [trajectory.nodes[index] for index in turn_indices(trajectory)[-1:]]
    return next((turn for turn in last if turn.answer is not None), None)


def _own_answer(trajectory: Trajectory, answers: Mapping[str, Target], tokenizer: Tokenizer) -> ScoreRequest | None:
    """At the prompt of the answering turn: the answer as it was written, the probe itself, and all forms behind the probe."""
    target, turn = answers[trajectory.question.id], _answering(trajectory)
    match = target.pattern.search(turn.text) if turn else None
    if turn is None or match is None or (parent := turn.parent) is None:
        return None
    (ids,), ((_, cut),) = contexts(trajectory.model_copy(update={"leaf": parent}), [parent])
    own = forced(tokenizer, Probe(prefix=turn.text[: match.start()], suffix=turn.text[match.end() :][:8]), match[0])
    behind = [forced(tokenizer, target.probe, form) for form in target.forms]
    begin = max(1, behind[0][1][0])  # of a probe without words, the answer's first token
    asked = [own, (behind[0][0], (0, begin)), *behind]
    return ScoreRequest(ids, [cut] * len(asked), [ids for ids, _ in asked], [span for _, span in asked])


# -- needed visits -----------------------------------------------------------------------------------------------------------


def needed_pages(question: Question) -> dict[str, str]:
    """The pages of ``meta.facts``, and what each brings: the answer, or a fact before it."""
    accepted = {answer.casefold() for answer in question.answers}
    needed: dict[str, str] = {}
    for fact in facts_of(question):
        if fact.url:
            url, is_last = canonical_url(fact.url), not accepted.isdisjoint(form.casefold() for form in fact.forms)
            needed[url] = FINAL if is_last else needed.get(url, BEFORE)
    return needed


def pages_read(trajectory: Trajectory) -> Iterator[tuple[Node | None, set[str] | None]]:
    """Of each turn: what its tools returned, and which pages its visits read; None where it has none of them."""
    observed = {node.parent: node for node in trajectory.nodes if node.kind is NodeKind.OBSERVATION}
    for index in turn_indices(trajectory):
        node = observed.get(index)
        visits = [event for event in node.events if event.role == "visit"] if node else []
        yield node, {canonical_url(url) for event in visits for url in event.provenance} if visits else None


def _share_missed(batch: Sequence[Graded]) -> float | None:
    """The share of wrong rollouts that leave out a page which their question needs."""
    missed = list[bool]()
    for one in batch:
        needed, read = needed_pages(one.trajectory.question).keys(), [pages for _, pages in pages_read(one.trajectory)]
        is_told = any(read) or all(pages is None for pages in read)  # others' records do not say which pages were read
        if needed and is_told and one.outcome is not None and one.outcome < 0.5:
            missed.append(bool(needed - set[str]().union(*(pages or () for pages in read))))
    return float(np.mean(missed)) if missed else None


def visits_bring(trajectory: Trajectory) -> Iterator[str | None]:
    """Of each turn: which fact its visits were the first to bring; None where it visits nothing.

    By the pages that ``meta.facts`` name; where none states the answer, the last of them is whatever completes them. Of a
    question without such facts, the first page that names an accepted answer.
    """
    question, needed = trajectory.question, needed_pages(trajectory.question)
    answer = Target(question.answers, Probe(prefix=""))
    seen: set[str] = set()
    for node, read in pages_read(trajectory):
        if node is None or read is None:
            yield None
            continue
        if needed:
            brought = {needed[url] for url in read - seen if url in needed}
            seen |= read
            if brought and FINAL not in needed.values() and seen >= needed.keys():
                brought = {FINAL}
        else:
            brought = {FINAL} if not seen and question.answers and answer.pattern.search(node.text) else set[str]()
            seen |= brought
        yield FINAL if FINAL in brought else BEFORE if brought else OTHER


# -- turns' worth ------------------------------------------------------------------------------------------------------------


def turns_worth(batch: Sequence[Graded], table: TurnTable) -> tuple[FloatArray, FloatArray]:
    """What each turn is worth [K], and by how many other rollouts that is known [K]; 0: it is not."""
    worth, weight = np.zeros(len(table)), np.zeros(len(table))
    took: dict[tuple[int, tuple[str, ...]], list[int]] = defaultdict(list)
    paths = [[(one.group, made) for made in calls_made(one.trajectory)] for one in batch]
    for number, (one, path) in enumerate(zip(batch, paths, strict=True)):
        if one.outcome is not None:
            for state in path:
                took[state].append(number)

    def others(state: tuple[int, tuple[str, ...]], number: int) -> list[float]:
        return [batch[other].outcome or 0.0 for other in took[state] if other != number]

    for number, path in enumerate(paths):
        rows = np.flatnonzero(table.trajectory == number)
        for row, before, after in zip(rows, path, path[1:], strict=False):
            stood, went = others(before, number), others(after, number)
            if len(went) >= _LEAST_OTHERS:
                worth[row], weight[row] = np.mean(went) - np.mean(stood), len(went)
    return worth, weight


def _explained(
    table: TurnTable, credit: Components, worth: FloatArray, weight: FloatArray, questions: IntArray, needed: FloatArray
) -> dict[str, Figure | None]:
    """What is held against turns' worth, by its name in `GainCheck`. Gains themselves where there is no credit of them."""
    known = np.flatnonzero(weight > 0)
    of = questions[known]
    if known.size < _LEAST or np.unique(of).size < _LEAST_QUESTIONS:
        return {}
    own = np.where(table.gain_scored, table.gain, 0.0)
    gain = credit.gain if credit.gain.any() else own
    outcomes = grpo(table, GrpoConfig()).total
    designs = ([], [outcomes], [outcomes, gain], [outcomes, own], [outcomes, needed])
    nothing, outcome, credited, alone, best = (
        _left(worth[known], [one[known] for one in columns], weight[known], of) for columns in designs
    )
    if not nothing.any():
        return {}

    def share(less: FloatArray) -> Figure:
        return _resampled(lambda at: float(less[at].sum() / max(nothing[at].sum(), 1e-12)), of)

    def correlation(advantage: FloatArray) -> Figure:
        return _resampled(lambda at: _aligned(advantage[known[at]], worth[known[at]], weight[known[at]]), of)

    return {
        "outcome_r2": share(nothing - outcome),
        "added_r2": share(outcome - credited),
        "own_r2": share(outcome - alone),
        "needed_r2": share(outcome - best) if needed[known].any() else None,
        "outcome_r": correlation(outcomes),
        "advantage_r": correlation(credit.total),
    }


# -- statistics --------------------------------------------------------------------------------------------------------------


def _resampled(statistic: Callable[[IntArray], float], groups: IntArray) -> Figure:
    """A statistic of rows, with its interval over groups drawn with replacement."""
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    rng, interval = np.random.default_rng(0), None
    if len(members) > 1:
        draws = rng.integers(len(members), size=(_RESAMPLES, len(members)))
        drawn = [statistic(np.concatenate([members[at] for at in draw])) for draw in draws]
        low, high = np.nanquantile(drawn, (0.025, 0.975))
        interval = float(low), float(high)
    return Figure(statistic(np.arange(len(groups))), interval, len(groups))


def _auc(values: FloatArray, positive: np.ndarray) -> float:
    """The chance that a positive has the larger value, ties counting half; NaN without both kinds."""
    ones, zeros = np.sort(values[positive]), np.sort(values[~positive])
    if not ones.size or not zeros.size:
        return float("nan")
    below = np.searchsorted(zeros, ones, "left") + np.searchsorted(zeros, ones, "right")
    return float(below.mean() / 2 / zeros.size)


def _aligned(x: FloatArray, y: FloatArray, weight: FloatArray) -> float:
    """Their correlation around zero, since nobody takes a mean from advantages: a gradient's signal to noise grows with it."""
    return float((weight * x * y).sum() / max(np.sqrt((weight * x * x).sum() * (weight * y * y).sum()), 1e-12))


def _left(y: FloatArray, columns: Sequence[FloatArray], weight: FloatArray, questions: IntArray) -> FloatArray:
    """What weighted least squares with a constant, fitted on the other questions, leave of each row: squares.

    Fitted on the same rows, any column at all would seem to add something.
    """
    root = np.sqrt(weight)
    design, y = np.stack([np.ones_like(y), *columns], axis=1) * root[:, None], y * root
    left = np.empty_like(y)
    for question in np.unique(questions):
        own = questions == question
        left[own] = (y[own] - design[own] @ np.linalg.lstsq(design[~own], y[~own], rcond=None)[0]) ** 2
    return left


def _share_within(values: FloatArray, trajectory: IntArray) -> float | None:
    """The share of the variance over turns that lies within trajectories."""
    if not values.size or not values.var() > 0:
        return None
    means = np.bincount(trajectory, values) / np.maximum(np.bincount(trajectory), 1)
    return float(((values - means[trajectory]) ** 2).mean() / values.var())
