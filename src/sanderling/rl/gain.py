"""Information gain: how much likelier the accepted answer became by what a turn's tools returned.

``V(c) = (1/L) sum_j log p(g_j | c, prefix, g_<j)`` over the answer's L tokens, teacher-forced at a boundary c: the prompt of a
turn. A turn's gain is V at the boundary after its observation minus V at the one after the scored turn before it, or at the
first: gains add up, and intervening turns' share is in them (IGPO, arXiv 2510.14967; on visits only: DR-Venus, arXiv
2604.19859). Boundaries of a trajectory with several branches are each on the branch that the turn saw; a context is named by
the node that it ends with, and rejected attempts are no turns and no contexts.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from pydantic import Field

from sanderling.core.chat import Tokenizer
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import NodeKind, Trajectory, turn_indices
from sanderling.rl.table import TurnTool, turn_tools
from sanderling.train.rows import FloatArray, Scorer, ScoreRequest

# -- settings --------------------------------------------------------------------------------------------------------------


class Probe(Frozen):
    """The text that is teacher-forced around the answer, right after a turn's prompt."""

    prefix: str  # text put between a turn's prompt and the answer
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

    LOGPROB = "logprob"  # mean log-probabilities (DR-Venus's default)
    PROB = "prob"  # their exponentials: geometric-mean probabilities (IGPO's)


class GainAnswers(StrEnum):
    """Which of several accepted answers counts."""

    BEST = "best"  # at each boundary the likeliest, so that a valid alternative is not punished
    FIRST = "first"  # the first that the question names (DR-Venus)


class GainConfig(Frozen):
    """How information gain is measured."""

    form: GainForm = GainForm.LOGPROB  # differences of mean log-probabilities or of probabilities
    tools: frozenset[TurnTool] = Field(default=frozenset({TurnTool.VISIT, TurnTool.BOTH}), min_length=1)
    """Turns that are scored, by what they called. The answer and malformed turns have no observation and never are."""
    probe: Probe | None = None  # None: the profile's
    answers: GainAnswers = GainAnswers.BEST  # which of several accepted answers counts


# -- gains -----------------------------------------------------------------------------------------------------------------


def information_gains(
    trajectories: Sequence[Trajectory], tokenizer: Tokenizer, scorer: Scorer, config: GainConfig
) -> list[list[float | None]]:
    """Each trajectory's gains, one for each turn (rejected attempts left out); None where none is scored.

    Raises UserError for text-only records and profiles without a probe, ValueError for scores that are not finite.
    """
    plans = [plan_gains(trajectory, tokenizer, config) for trajectory in trajectories]
    scores = scorer.score_many([plan.request for plan in plans])
    return [plan.gains(found) for plan, found in zip(plans, scores, strict=True)]


@dataclass(frozen=True)
class GainPlan:
    """What one trajectory asks of a scorer, and how its answer is read."""

    request: ScoreRequest
    pairs: tuple[tuple[int, int, int], ...]
    """``(turn, boundary before, boundary after)`` of each scored turn; boundaries count the distinct contexts."""
    turns: int
    answers: int
    form: GainForm

    def gains(self, scores: Sequence[FloatArray]) -> list[float | None]:
        """One for each turn; None where none is scored. Raises ValueError for numbers that are not finite."""
        means = np.array([float(values.mean()) for values in scores])
        if not np.isfinite(means).all():
            raise ValueError("the scorer returned log-probabilities that are not finite")
        gains: list[float | None] = [None] * self.turns
        values = means.reshape(-1, self.answers).max(axis=1) if self.pairs else means
        if self.form is GainForm.PROB:
            values = np.exp(values)
        for turn, start, end in self.pairs:
            gains[turn] = float(values[end] - values[start])
        return gains


def plan_gains(trajectory: Trajectory, tokenizer: Tokenizer, config: GainConfig) -> GainPlan:
    """The request of a trajectory. Raises UserError as :func:`information_gains`."""
    turns, tools = turn_indices(trajectory), turn_tools(trajectory)
    pairs: list[tuple[int, int, int]] = []
    last = trajectory.nodes[turns[0]].parent if turns else None
    for turn, (tool, after) in enumerate(zip(tools, observed(trajectory), strict=True)):
        if tool not in config.tools or after is None:
            continue
        if last is None:
            raise ValueError(f"trajectory {trajectory.id}: turn {turn} has no prompt")
        pairs.append((turn, last, after))
        last = after
    wanted = list(dict.fromkeys(node for _, *ends in pairs for node in ends))
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
    return GainPlan(request, numbered, len(tools), len(probes), config.form)


# -- what is teacher-forced ------------------------------------------------------------------------------------------------


def _probes(trajectory: Trajectory, tokenizer: Tokenizer, config: GainConfig) -> list[tuple[list[int], tuple[int, int]]]:
    """The ids to force for each answer that counts, and the half-open span of the answer's."""
    probe = config.probe or PROBES.get(trajectory.profile)
    if probe is None:
        raise UserError(f"There is no probe for profile {trajectory.profile!r}: give one in the gain configuration.")
    question = trajectory.question
    answers = question.answers[:1] if config.answers is GainAnswers.FIRST else question.answers
    return [forced(tokenizer, probe, answer) for answer in answers]


def forced(tokenizer: Tokenizer, probe: Probe, answer: str) -> tuple[list[int], tuple[int, int]]:
    """The probe around an answer, as the tokenizer makes it of the whole text, which is how a policy has learnt to write it.

    The answer's tokens are all that hold a character of it: one that also holds the end of the prefix or the beginning of the
    suffix counts whole, since that is what would be sampled. Where decoding does not give the text back, nobody can say which
    these are, and parts are encoded apart. The answer is in NFC, as models write and Qwen's tokenizer reads. Raises ValueError
    for an empty answer.
    """
    if not answer:
        raise ValueError("an empty answer has no tokens")
    answer = unicodedata.normalize("NFC", answer)
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


def observed(trajectory: Trajectory) -> list[int | None]:
    """For each turn the context after it, by its last node; None where nothing follows.

    It is the first that holds what the turn's tools returned: the prompt of the next turn that goes on from it, and where none
    does (the history was reset, a hint took its place, the episode ended) the end of what was returned, in whatever way it was
    shown. No page is measured without itself.
    """
    nodes, turns = trajectory.nodes, turn_indices(trajectory)
    behind = {turn: set(trajectory.path(turn)) for turn in turns}
    found: list[int | None] = []
    for number, turn in enumerate(turns):
        returned = [index for index, node in enumerate(nodes) if node.parent == turn and node.kind is NodeKind.OBSERVATION]
        later = next((other for other in turns[number + 1 :] if not behind[other].isdisjoint(returned or [turn])), None)
        if later is not None:
            found.append(nodes[later].parent)
            continue
        at = max(returned, default=turn)
        for index in range(at + 1, len(nodes)):
            if nodes[index].parent == at and nodes[index].kind is not NodeKind.TURN:
                at = index
        found.append(None if at == turn else at)
    return found


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
