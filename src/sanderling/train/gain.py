"""Information gain: how much likelier the accepted answer became by what a turn's tools returned.

``V(c) = (1/L) sum_j log p(g_j | c, prefix, g_<j)`` over the answer's L tokens, teacher-forced at a boundary c: the prompt of a
turn. A turn's gain is V at the boundary after its observation minus V at an earlier one (IGPO, arXiv 2510.14967; on visits
only: DR-Venus, arXiv 2604.19859). Boundaries of a trajectory with several branches are each on the branch that the turn saw
(`gain_places`). Knows no model: log-probabilities come from a scorer that is handed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.chat import Tokenizer
from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, TurnTool, turn_tools
from sanderling.train.contract import FloatArray, Scorer, ScoreRequest
from sanderling.train.gain_answers import Forced, Probe, forced
from sanderling.train.gain_places import GainAfter, contexts, turn_places

DR_VENUS_PROBE = Probe(prefix="Now there's enough information to answer\n</think>\n<answer>\n", suffix="\n</answer>")
PROBES: dict[str, Probe] = {
    "dr-venus-4b": DR_VENUS_PROBE,
    "literesearcher-4b": DR_VENUS_PROBE,
    "agentcpm-explore-4b": DR_VENUS_PROBE,
    "tiny": Probe(prefix="That is good enough.\n</think>\n<answer>", suffix="</answer>"),
}
"""By profile. All begin inside the reasoning that the profile's prompt opens."""


class GainForm(StrEnum):
    """What is subtracted."""

    LOGPROB = "logprob"
    """Mean log-probabilities (DR-Venus's default)."""
    PROB = "prob"
    """Their exponentials: geometric-mean probabilities (IGPO's)."""


class GainBaseline(StrEnum):
    """Which earlier boundary a turn is compared with."""

    LAST_SCORED = "last_scored"
    """The one after the scored turn before it, or the first: gains add up, and intervening turns' share is in them."""
    TURN_START = "turn_start"
    """The turn's own prompt."""


class GainAnswers(StrEnum):
    """Which of several accepted answers counts."""

    BEST = "best"
    """At each boundary the likeliest, so that a valid alternative is not punished."""
    FIRST = "first"
    """The first that the question names (DR-Venus)."""
    FIXED = "fixed"
    """One for the whole trajectory: the likeliest at its first boundary. There the context is the question alone: nothing that
    the policy does can change which it is, and a group's rollouts have the same."""


class GainConfig(BaseModel):
    """How information gain is measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: GainForm = GainForm.LOGPROB
    baseline: GainBaseline = GainBaseline.LAST_SCORED
    after: GainAfter = GainAfter.OBSERVED
    tools: frozenset[TurnTool] = Field(default=frozenset({TurnTool.VISIT, TurnTool.BOTH}), min_length=1)
    """Turns that did this are scored; the answer and malformed turns have no observation and never are."""
    probe: Probe | None = None
    """None: the profile's."""
    answers: GainAnswers = GainAnswers.BEST
    temperature: float | None = Field(default=None, gt=0)
    """What logits are divided by; None: the temperature that the policy samples at (DR-Venus)."""


@dataclass(frozen=True)
class GainPlan:
    """What one trajectory asks of a scorer, and how its answer is read."""

    request: ScoreRequest
    pairs: tuple[tuple[int, int, int], ...]
    """``(turn, boundary before, boundary after)`` of each scored turn; boundaries count the distinct contexts, the trajectory's
    first is 0 where the answer is fixed."""
    turns: int
    answers: int
    config: GainConfig

    def gains(self, scores: Sequence[FloatArray]) -> list[float | None]:
        """One for each turn; None where none is scored. Raises ValueError for numbers that are not finite."""
        means = np.array([float(values.mean()) for values in scores])
        if not np.isfinite(means).all():
            raise ValueError("the scorer returned log-probabilities that are not finite")
        gains: list[float | None] = [None] * self.turns
        if not self.pairs:
            return gains
        table = means.reshape(-1, self.answers)
        values = table[:, int(table[0].argmax())] if self.config.answers is GainAnswers.FIXED else table.max(axis=1)
        if self.config.form is GainForm.PROB:
            values = np.exp(values)
        for turn, start, end in self.pairs:
            gains[turn] = float(values[end] - values[start])
        return gains


def information_gains(
    trajectories: Sequence[Trajectory], tokenizer: Tokenizer, scorer: Scorer, config: GainConfig
) -> list[list[float | None]]:
    """Each trajectory's gains, one for each turn (rejected attempts left out); None where none is scored.

    Raises UserError for text-only records, questions without answers, and profiles without a probe; ValueError when the scorer
    returns numbers that are not finite.
    """
    plans = [plan_gains(trajectory, tokenizer, config) for trajectory in trajectories]
    scores = scorer.score_many([plan.request for plan in plans])
    return [plan.gains(found) for plan, found in zip(plans, scores, strict=True)]


def plan_gains(trajectory: Trajectory, tokenizer: Tokenizer, config: GainConfig) -> GainPlan:
    """The request of a trajectory. Raises UserError as :func:`information_gains`."""
    tools, places = turn_tools(trajectory), turn_places(trajectory, config.after)
    pairs: list[tuple[int, int, int]] = []
    first = places[0].before if places else None
    last = first
    for turn, (tool, place) in enumerate(zip(tools, places, strict=True)):
        if tool not in config.tools or place.after is None:
            continue
        before = last if config.baseline is GainBaseline.LAST_SCORED else place.before
        if before is None:
            raise ValueError(f"trajectory {trajectory.id}: turn {turn} has no prompt")
        pairs.append((turn, before, place.after))
        last = place.after
    # The first boundary decides which answer is fixed.
    leading = [first] if first is not None and pairs and config.answers is GainAnswers.FIXED else []
    wanted = list(dict.fromkeys([*leading, *(node for _, *ends in pairs for node in ends)]))
    number = {node: index for index, node in enumerate(wanted)}
    probes = _probes(trajectory, tokenizer, config) if wanted else []
    found = contexts(trajectory, wanted)
    request = ScoreRequest(
        ids=found.branches[0],
        cuts=[cut for cut in found.length for _ in probes],
        continuations=[probe.ids for _ in wanted for probe in probes],
        answer_spans=[probe.span for _ in wanted for probe in probes],
        others=found.branches[1:],
        on=[branch for branch in found.branch for _ in probes],
        temperature=config.temperature,
        family=trajectory.question.id,
    )
    numbered = tuple((turn, number[before], number[after]) for turn, before, after in pairs)
    return GainPlan(request, numbered, len(tools), len(probes), config)


def _probes(trajectory: Trajectory, tokenizer: Tokenizer, config: GainConfig) -> list[Forced]:
    """What is teacher-forced for each answer that counts."""
    probe = config.probe or PROBES.get(trajectory.profile)
    if probe is None:
        raise UserError(f"There is no probe for profile {trajectory.profile!r}: give one in the gain configuration.")
    question = trajectory.question
    if not question.answers or not all(question.answers):
        raise UserError(
            f"Question {question.id!r} has no accepted answer, or an empty one: add one, or leave the question out."
        )
    answers = question.answers[:1] if config.answers is GainAnswers.FIRST else question.answers
    return [forced(tokenizer, probe, answer) for answer in answers]
