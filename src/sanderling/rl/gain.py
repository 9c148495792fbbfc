"""Information gain: how much likelier the accepted answer became by what a turn's tools returned.

``V(c) = (1/L) sum_j log p(g_j | c, prefix, g_<j)`` over the answer's L tokens, teacher-forced at a boundary c: the prompt of a
turn. A turn's gain is V at the boundary after its observation minus V at an earlier one (IGPO, arXiv 2510.14967; on visits
only: DR-Venus, arXiv 2604.19859). Boundaries of a trajectory with several branches are each on the branch that the turn saw; a
context is named by the node that it ends with, and rejected attempts are no turns and no contexts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from pydantic import Field

from sanderling.core.chat import Tokenizer
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import NodeKind, Trajectory, turn_indices
from sanderling.rl.credit.table import TurnTool, turn_tools
from sanderling.train.contract import FloatArray, Row, RowScorer, Scorer, ScoreRequest

# -- settings --------------------------------------------------------------------------------------------------------------


class Probe(Frozen):
    """The text that is teacher-forced around the answer, right after a turn's prompt."""

    prefix: str
    suffix: str = ""
    """What follows it. Cannot change the answer's log-probabilities under a causal model, but decides its last token:
    ``.`` before a line break is one token with it in many vocabularies. Scorers leave out what stands behind that."""


DR_VENUS_PROBE = Probe(prefix="Now there's enough information to answer\n</think>\n<answer>\n", suffix="\n</answer>")
PROBES: dict[str, Probe] = {
    **dict.fromkeys(("dr-venus-4b", "literesearcher-4b", "agentcpm-explore-4b"), DR_VENUS_PROBE),
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


class GainAfter(StrEnum):
    """Which boundary is the one after a turn, where a trajectory has several branches; on a single one they are the same."""

    OBSERVED = "observed"
    """The first that holds what its tools returned: the prompt of the next turn that goes on from it, and where none does
    (the history was reset, a hint took its place, the episode ended) the end of what was returned. No page is measured without
    itself."""
    NEXT_TURN = "next_turn"
    """The prompt of the next turn in time, on whatever branch: a reset's loss is the turn's before it."""


class GainAnswers(StrEnum):
    """Which of several accepted answers counts."""

    BEST = "best"
    """At each boundary the likeliest, so that a valid alternative is not punished."""
    FIRST = "first"
    """The first that the question names (DR-Venus)."""
    FIXED = "fixed"
    """One for the whole trajectory: the likeliest at its first boundary. There the context is the question alone: nothing that
    the policy does can change which it is, and a group's rollouts have the same."""


class GainConfig(Frozen):
    """How information gain is measured."""

    form: GainForm = GainForm.LOGPROB
    baseline: GainBaseline = GainBaseline.LAST_SCORED
    after: GainAfter = GainAfter.OBSERVED
    tools: frozenset[TurnTool] = Field(default=frozenset({TurnTool.VISIT, TurnTool.BOTH}), min_length=1)
    """Turns that did this are scored; the answer and malformed turns have no observation and never are."""
    probe: Probe | None = None
    """None: the profile's."""
    answers: GainAnswers = GainAnswers.BEST


# -- gains -----------------------------------------------------------------------------------------------------------------


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


def gains_and_logprobs(
    trajectories: Sequence[Trajectory],
    rows: Sequence[Sequence[Row]],
    tokenizer: Tokenizer,
    scorer: RowScorer,
    config: GainConfig,
) -> tuple[list[list[float | None]], list[list[FloatArray]]]:
    """:func:`information_gains`, and each trajectory's rows as `row_logprobs` would score them.

    A row's advantages are not looked at, so that rows can be made before there are any. Collective, and the same on every rank.
    """
    plans = [plan_gains(trajectory, tokenizer, config) for trajectory in trajectories]
    found = scorer.score_with_rows([plan.request for plan in plans], rows)
    gains = [plan.gains(one.boundaries) for plan, one in zip(plans, found, strict=True)]
    return gains, [one.rows for one in found]


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


def plan_gains(trajectory: Trajectory, tokenizer: Tokenizer, config: GainConfig) -> GainPlan:
    """The request of a trajectory. Raises UserError as :func:`information_gains`."""
    tools, places = turn_tools(trajectory), turn_places(trajectory, config.after)
    pairs: list[tuple[int, int, int]] = []
    first = last = places[0][0] if places else None
    for turn, (tool, (start, after)) in enumerate(zip(tools, places, strict=True)):
        if tool not in config.tools or after is None:
            continue
        before = last if config.baseline is GainBaseline.LAST_SCORED else start
        if before is None:
            raise ValueError(f"trajectory {trajectory.id}: turn {turn} has no prompt")
        pairs.append((turn, before, after))
        last = after
    # The first boundary decides which answer is fixed.
    leading = [first] if first is not None and pairs and config.answers is GainAnswers.FIXED else []
    wanted = list(dict.fromkeys([*leading, *(node for _, *ends in pairs for node in ends)]))
    number = {node: index for index, node in enumerate(wanted)}
    probes = _probes(trajectory, tokenizer, config) if wanted else []
    branches, ends = contexts(trajectory, wanted)
    request = ScoreRequest(
        ids=branches[0],
        cuts=[cut for _, cut in ends for _ in probes],
        continuations=[ids for _ in wanted for ids, _ in probes],
        answer_spans=[span for _ in wanted for _, span in probes],
        others=tuple(branches[1:]),
        on=[branch for branch, _ in ends for _ in probes],
    )
    numbered = tuple((turn, number[before], number[after]) for turn, before, after in pairs)
    return GainPlan(request, numbered, len(tools), len(probes), config)


# -- what is teacher-forced ------------------------------------------------------------------------------------------------

Forced = tuple[list[int], tuple[int, int]]
"""Teacher-forced ids, and the half-open span of the answer's."""


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


def forced(tokenizer: Tokenizer, probe: Probe, answer: str) -> Forced:
    """The probe around an answer, as the tokenizer makes it of the whole text, which is how a policy has learnt to write it.

    The answer's tokens are all that hold a character of it: one that also holds the end of the prefix or the beginning of the
    suffix counts whole, since that is what would be sampled. Where decoding does not give the text back, nobody can say which
    these are, and parts are encoded apart. Raises ValueError for an empty answer.
    """
    if not answer:
        raise ValueError("an empty answer has no tokens")
    text = probe.prefix + answer + probe.suffix
    ids = tokenizer.encode(text)
    if tokenizer.decode(ids) != text:
        prefix, own, suffix = (tokenizer.encode(part) for part in (probe.prefix, answer, probe.suffix))
        return [*prefix, *own, *suffix], (len(prefix), len(prefix) + len(own))
    # A token may hold half a character, so that not every place in the ids is one in the text.
    parts = [tokenizer.decode(ids[:count]) for count in range(len(ids) + 1)]
    first = max(count for count, part in enumerate(parts) if probe.prefix.startswith(part))
    end = min(count for count, part in enumerate(parts) if part.startswith(probe.prefix + answer))
    return ids, (first, end)


# -- where boundaries are ----------------------------------------------------------------------------------------------------


def turn_places(trajectory: Trajectory, after: GainAfter) -> list[tuple[int | None, int | None]]:
    """For each turn the contexts before and after it, by their last nodes; None: it has no prompt, nothing follows it."""
    turns = turn_indices(trajectory)
    behind = {turn: set(trajectory.path(turn)) for turn in turns}
    found = []
    for number, turn in enumerate(turns):
        later = turns[number + 1 :]
        if after is GainAfter.OBSERVED:
            returned = _returned(trajectory, turn) or [turn]
            later = [other for other in later if not behind[other].isdisjoint(returned)]
        end = trajectory.nodes[later[0]].parent if later else _tail(trajectory, turn)
        found.append((trajectory.nodes[turn].parent, end))
    return found


def _returned(trajectory: Trajectory, turn: int) -> list[int]:
    """What a turn's tools returned, in all the ways that it was shown."""
    nodes = enumerate(trajectory.nodes)
    return [index for index, node in nodes if node.parent == turn and node.kind is NodeKind.OBSERVATION]


def _tail(trajectory: Trajectory, turn: int) -> int | None:
    """The last message behind what a turn's tools returned, or behind the turn where they returned nothing."""
    at = max(_returned(trajectory, turn), default=turn)
    for index in range(at + 1, len(trajectory.nodes)):
        node = trajectory.nodes[index]
        if node.parent == at and node.kind is not NodeKind.TURN:
            at = index
    return None if at == turn else at


def contexts(trajectory: Trajectory, ends: Sequence[int]) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Ids of as few branches as hold the contexts that end with given nodes, the main one first; each one's branch and length.

    Raises UserError when a node has text only.
    """
    paths = [trajectory.path()]
    on = dict.fromkeys(paths[0], 0)
    for end in sorted(set(ends) - set(on), reverse=True):
        if end not in on:
            path = trajectory.path(end)
            on |= {node: len(paths) for node in path if node not in on}
            paths.append(path)
    sizes: dict[int, int] = {}
    branches: list[list[int]] = []
    for path in paths:
        ids: list[int] = []
        for node in path:
            own = trajectory.nodes[node].token_ids
            if own is None:
                raise UserError(
                    f"Trajectory {trajectory.id} has text only, and information gain needs token ids: "
                    "use an in-process policy or an endpoint that returns token ids."
                )
            ids += own
            sizes[node] = len(ids)
        branches.append(ids)
    return branches, [(on[end], sizes[end]) for end in ends]
