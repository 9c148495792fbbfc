"""Information gain: how much likelier the accepted answer became by what a turn's tools returned.

``V(c) = (1/L) sum_j log p(g_j | c, prefix, g_<j)`` over the answer's L tokens, teacher-forced at a boundary c: the prompt of a
turn. A turn's gain is V at the boundary after its observation minus V at an earlier one (IGPO, arXiv 2510.14967; on visits
only: DR-Venus, arXiv 2604.19859). Knows no model: log-probabilities come from a scorer that is handed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from pydantic import BaseModel, ConfigDict

from sanderling.errors import UserError
from sanderling.protocol.tokens import Tokenizer
from sanderling.reward.contract import FloatArray, Scorer, ScoreRequest
from sanderling.trajectory.record import NodeKind, Trajectory
from sanderling.trajectory.turns import TurnTool, turn_indices, turn_tools


class Probe(BaseModel):
    """The text that is teacher-forced around the answer, right after a turn's prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: str
    suffix: str = ""
    """Cannot change the answer's log-probabilities under a causal model; scorers leave it out."""


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


class GainConfig(BaseModel):
    """How information gain is measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: GainForm = GainForm.LOGPROB
    baseline: GainBaseline = GainBaseline.LAST_SCORED
    tools: frozenset[TurnTool] = frozenset({TurnTool.VISIT, TurnTool.BOTH})
    """Turns that did this are scored; the answer and malformed turns have no observation and never are."""
    probe: Probe | None = None
    """None: the profile's."""


@dataclass(frozen=True)
class _Plan:
    """What one trajectory asks of the scorer."""

    request: ScoreRequest
    pairs: tuple[tuple[int, int, int], ...]
    """``(turn, boundary before, boundary after)`` of each scored turn; boundaries count the distinct cuts."""
    turns: int
    answers: int


def information_gains(
    trajectories: Sequence[Trajectory], tokenizer: Tokenizer, scorer: Scorer, config: GainConfig
) -> list[list[float | None]]:
    """Each trajectory's gains, one for each turn (rejected attempts left out); None where none is scored.

    With several accepted answers a boundary has the value of the best. Raises UserError for text-only records, questions
    without answers, and profiles without a probe; ValueError when the scorer returns numbers that are not finite.
    """
    plans = [_plan(trajectory, tokenizer, config) for trajectory in trajectories]
    scores = scorer.score_many([plan.request for plan in plans])
    return [_gains(plan, found, config.form) for plan, found in zip(plans, scores, strict=True)]


def boundaries(trajectory: Trajectory) -> list[int]:
    """Length of the context at each turn's prompt on the main branch, and after the last observation where no turn follows.

    Raises UserError when a node has text only.
    """
    cuts: list[int] = []
    size = 0
    nodes = trajectory.branch()
    for node in nodes:
        if node.token_ids is None:
            raise UserError(
                f"Trajectory {trajectory.id} has text only, and information gain needs token ids: "
                "use an in-process policy or an endpoint that returns token ids."
            )
        if node.kind is NodeKind.TURN:
            cuts.append(size)
        size += len(node.token_ids)
    if nodes and nodes[-1].kind is not NodeKind.TURN:
        cuts.append(size)
    return cuts


def _plan(trajectory: Trajectory, tokenizer: Tokenizer, config: GainConfig) -> _Plan:
    cuts = boundaries(trajectory)
    tools, indices = turn_tools(trajectory), turn_indices(trajectory)
    said = [indices.index(at) for at in trajectory.path() if trajectory.nodes[at].kind is NodeKind.TURN]
    scored = [at for at, turn in enumerate(said) if tools[turn] in config.tools and at + 1 < len(cuts)]
    before = [0, *(at + 1 for at in scored)] if config.baseline is GainBaseline.LAST_SCORED else scored
    pairs = [(said[at], start, at + 1) for at, start in zip(scored, before, strict=False)]
    wanted = sorted({at for _, start, end in pairs for at in (start, end)})
    place = {at: index for index, at in enumerate(wanted)}
    probes = _continuations(trajectory, tokenizer, config) if wanted else []
    request = ScoreRequest(
        ids=trajectory.token_ids() or [],
        cuts=[cuts[at] for at in wanted for _ in probes],
        continuations=[ids for _ in wanted for ids, _ in probes],
        answer_spans=[span for _ in wanted for _, span in probes],
    )
    return _Plan(request, tuple((turn, place[start], place[end]) for turn, start, end in pairs), len(tools), len(probes))


def _continuations(trajectory: Trajectory, tokenizer: Tokenizer, config: GainConfig) -> list[tuple[list[int], tuple[int, int]]]:
    """For each accepted answer its teacher-forced ids and the answer's span in them; the parts are encoded apart."""
    probe = config.probe or PROBES.get(trajectory.profile)
    if probe is None:
        raise UserError(f"There is no probe for profile {trajectory.profile!r}: give one in the gain configuration.")
    if not trajectory.question.answers:
        raise UserError(f"Question {trajectory.question.id!r} has no accepted answer: add one, or leave the question out.")
    prefix, suffix = tokenizer.encode(probe.prefix), tokenizer.encode(probe.suffix)
    found = []
    for answer in trajectory.question.answers:
        ids = tokenizer.encode(answer)
        found.append(([*prefix, *ids, *suffix], (len(prefix), len(prefix) + len(ids))))
    return found


def _gains(plan: _Plan, scores: Sequence[FloatArray], form: GainForm) -> list[float | None]:
    means = np.array([float(values.mean()) for values in scores])
    if not np.isfinite(means).all():
        raise ValueError("the scorer returned log-probabilities that are not finite")
    values = means.reshape(-1, plan.answers or 1).max(axis=1) if means.size else means
    if form is GainForm.PROB:
        values = np.exp(values)
    gains: list[float | None] = [None] * plan.turns
    for turn, start, end in plan.pairs:
        gains[turn] = float(values[end] - values[start])
    return gains
