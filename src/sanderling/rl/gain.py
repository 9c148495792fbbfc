"""Information gain: how much likelier what is to be found out became by what a turn's tools returned.

``V(c) = (1/L) sum_j log p(g_j | c, probe, g_<j)`` over the L tokens of an accepted answer g, teacher-forced behind a probe at a
boundary c: the prompt of a turn. A turn's gain is V at the boundary after its observation minus V at the one after the scored
turn before it, or at the first: gains add up, and intervening turns' share is in them (IGPO, arXiv 2510.14967; on visits only:
DR-Venus, arXiv 2604.19859). *Milestone* gains are of the facts on the way as well: V is the mean over them and the answer. A
fact counts until the policy itself has named it; what it would say of it later, with other pages before its eyes, is no news.
Boundaries of a trajectory with several branches are each on the branch that the turn saw; a context is named by the node that
it ends with, and rejected attempts are no turns and no contexts.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from pydantic import Field

from sanderling.core.chat import Tokenizer
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Trajectory, turn_indices
from sanderling.rl.table import TurnTool, turn_tools
from sanderling.train.rows import FloatArray, Scorer, ScoreRequest
from sanderling.world.text import CJK

# -- settings --------------------------------------------------------------------------------------------------------------


class Probe(Frozen):
    """The text that is teacher-forced around the answer, right after a turn's prompt."""

    prefix: str  # text put between a turn's prompt and the answer
    suffix: str = ""
    """What follows it. Cannot change the answer's log-probabilities under a causal model, but decides its last token:
    ``.`` before a line break is one token with it in many vocabularies. Scorers leave out what stands behind that."""


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
    milestones: bool = False
    """Whether information is also about the facts that a question's ``meta.facts`` name, which its answer follows from."""
    probe: Probe | None = None
    """None: the words with which the policy itself comes to speak of what is measured. Others may be foreign to it."""
    answers: GainAnswers = GainAnswers.BEST  # which of several accepted answers counts


# -- gains -----------------------------------------------------------------------------------------------------------------

_LETTER = rf"[^\W{CJK}\uac00-\ud7a3]"


@dataclass(frozen=True)
class Target:
    """What is to be found out: all forms that are right, and the probe before them."""

    forms: tuple[str, ...]
    probe: Probe
    is_answer: bool = True

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Finds any form as words of its own; beside letters of scripts that join names to other words everything is one."""
        longest_first = sorted((re.escape(unicodedata.normalize("NFC", form)) for form in self.forms), key=len, reverse=True)
        return re.compile(rf"(?<!{_LETTER})(?:{'|'.join(longest_first)})(?!{_LETTER})", re.IGNORECASE)

    def is_in(self, text: str) -> bool:
        return self.pattern.search(text) is not None


def information_gains(
    trajectories: Sequence[Trajectory],
    tokenizer: Tokenizer,
    scorer: Scorer,
    config: GainConfig,
    targets: Mapping[str, Sequence[Target]] | None = None,
) -> list[list[float | None]]:
    """Each trajectory's gains, one for each turn (rejected attempts left out); None where none is scored.

    ``targets``: by question; None: as these trajectories have them. Raises UserError for text-only records, and for scores
    that are not finite.
    """
    targets = find_targets(trajectories, config) if targets is None else targets
    plans = [plan_gains(trajectory, targets[trajectory.question.id], tokenizer, config) for trajectory in trajectories]
    scores = scorer.score_many([plan.request for plan in plans])
    return [plan.gains(found) for plan, found in zip(plans, scores, strict=True)]


@dataclass(frozen=True)
class GainPlan:
    """What one trajectory asks of a scorer, and how its answer is read."""

    request: ScoreRequest
    pairs: tuple[tuple[int, int, int], ...]
    """``(turn, boundary before, boundary after)`` of each scored turn; boundaries count the distinct contexts."""
    turns: int
    boundaries: int
    forms: tuple[int, ...]
    """How many forms each target has, in the order in which they are asked at each boundary."""
    known: tuple[int, ...]
    """The first boundary before which the policy has named each target: from there on it is not asked and stays what it was."""
    form: GainForm

    def values(self, scores: Sequence[FloatArray]) -> FloatArray:
        """What each target has at each boundary [boundaries, targets]. Raises UserError for numbers that are not finite."""
        means = [float(values.mean()) for values in scores]
        if not np.isfinite(means).all():
            raise UserError("The model's log-probabilities of answers are not finite: take weights from before they broke.")
        asked, best = iter(means), np.empty((self.boundaries, len(self.forms)))
        for at in range(self.boundaries):
            for target, (forms, known) in enumerate(zip(self.forms, self.known, strict=True)):
                best[at, target] = max(islice(asked, forms)) if at < known else best[at - 1, target]
        return np.exp(best) if self.form is GainForm.PROB else best

    def gains(self, scores: Sequence[FloatArray]) -> list[float | None]:
        """One for each turn; None where none is scored. Raises UserError as `values`."""
        gains: list[float | None] = [None] * self.turns
        if self.pairs:
            values = self.values(scores).mean(axis=1)
            for turn, start, end in self.pairs:
                gains[turn] = float(values[end] - values[start])
        return gains


def plan_gains(trajectory: Trajectory, targets: Sequence[Target], tokenizer: Tokenizer, config: GainConfig) -> GainPlan:
    """The request of a trajectory. Raises UserError for a text-only record."""
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
    known = tuple(_known(trajectory, target, [turn for turn, *_ in pairs]) for target in targets)
    probes = [[forced(tokenizer, target.probe, form) for form in target.forms] for target in targets]
    branches, ends = contexts(trajectory, wanted)
    asked = [
        (branch, cut, ids, span)
        for at, (branch, cut) in enumerate(ends)
        for forms, first in zip(probes, known, strict=True)
        if at < first
        for ids, span in forms
    ]
    request = ScoreRequest(
        ids=branches[0],
        cuts=[cut for _, cut, *_ in asked],
        continuations=[ids for *_, ids, _ in asked],
        answer_spans=[span for *_, span in asked],
        others=tuple(branches[1:]),
        on=[branch for branch, *_ in asked],
    )
    numbered = tuple((turn, number[before], number[after]) for turn, before, after in pairs)
    return GainPlan(request, numbered, len(tools), len(wanted), tuple(map(len, probes)), known, config.form)


def _known(trajectory: Trajectory, target: Target, scored: Sequence[int]) -> int:
    """Before which boundary the policy has named a fact; boundary n is behind the n-th scored turn, 0 before all."""
    if target.is_answer:
        return len(scored) + 1
    named = (number for number, turn in enumerate(_turns(trajectory)) if target.pattern.search(turn.text))
    return 1 + bisect_left(scored, next(named, len(trajectory.nodes)))


# -- what is to be found out, and the words that lead to it ------------------------------------------------------------------
#
# A probe that the policy would not write measures something else than what the policy knows: in one ablation answers had -4.9
# nats a token behind a sentence written by hand, and -0.46 behind the policy's own words. So the words are taken from its own
# turns: what it wrote from the beginning of a turn to where it first named the thing. Words that only one rollout wrote may
# have come from what that one had read; then the probe is what leads to an answer that nothing before it names, such as a
# guess, or the end of thinking alone. So it is for an answer that the question names: it is first mentioned when the question
# is told again.

_TWICE = 2  # rollouts that have to lead up to a thing in the same words
_SHARE = 10  # of answering turns, one in so many
_BEHIND = 8  # characters that decide which token a thing ends with
_PLAIN = Probe(prefix="\n</think>\n<answer>", suffix="</answer>")  # where nobody has answered yet


def find_targets(trajectories: Sequence[Trajectory], config: GainConfig) -> dict[str, tuple[Target, ...]]:
    """By question: its answer, and with ``milestones`` those facts before it that any of its rollouts names.

    Raises UserError as `facts_of`.
    """
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault(trajectory.question.id, []).append(trajectory)
    closing = config.probe or _closing(trajectories)
    most = 1 if config.answers is GainAnswers.FIRST else None
    found: dict[str, tuple[Target, ...]] = {}
    for name, group in groups.items():
        question, turns = group[0].question, [_turns(one) for one in group]
        answering = [own[-1:] for own in turns if own and own[-1].answer is not None]
        answer = Target(question.answers, closing)
        leads = [] if answer.is_in(question.text) else _leads(answering, answer)
        targets = [Target(question.answers[:most], config.probe or _commonest(leads) or closing)]
        for forms, other in milestones(question) if config.milestones else ():
            fact = Target(forms, closing, is_answer=False)
            if leads := _leads(turns, fact, other):
                targets.append(replace(fact, probe=config.probe or _commonest(leads) or closing))
        found[name] = tuple(targets)
    return found


@dataclass(frozen=True)
class Fact:
    """One of ``meta.facts``: what it tells, in all forms given, what of, and the page that states it."""

    forms: tuple[str, ...]
    other: str
    url: str


def facts_of(question: Question) -> list[Fact]:
    """What ``meta.facts`` tell: each one's object, or, where the question names that, its subject.

    Raises UserError as `read_facts`.
    """
    found: list[Fact] = []
    for fact in read_facts(question):
        told = fact.other and _told(question, fact.forms) and not _told(question, [fact.other])
        found.append(Fact((fact.other,), fact.forms[0], fact.url) if told else fact)
    return found


def read_facts(question: Question) -> list[Fact]:
    """``meta.facts`` as they are written: objects, and what of.

    ``synth`` writes them. In a file of one's own: ``{"facts": [{"subject": "Orlo", "object": ["Asta Brandt", "Brandt"]}]}``.
    One with an address and no object is the answer's. Raises UserError for facts of another shape.
    """
    given = question.meta.get("facts") or []
    found: list[Fact] = []
    for fact in given if isinstance(given, list) else [given]:
        known: dict[str, Any] = fact if isinstance(fact, dict) else {}
        subject, url = str(known.get("subject") or ""), str(known.get("url") or "")
        forms = known.get("object", list(question.answers) if url else None)
        forms = [forms] if isinstance(forms, str) else forms
        if not isinstance(forms, list) or not forms or not all(isinstance(form, str) and form for form in forms):
            raise UserError(f"Question {question.id} has a fact without an object: write meta.facts as objects with one each.")
        found.append(Fact(tuple(forms), subject, url))
    return found


def milestones(question: Question) -> Iterator[tuple[tuple[str, ...], str]]:
    """What the facts tell, and what of: but for the answer, and what the question or a fact before told.

    A fact about the answer whose object an earlier fact told is left out: nothing but the answer is new in it.
    """
    answers = {answer.casefold() for answer in question.answers}
    seen, objects = set[tuple[str, ...]](), set[str]()
    for fact in facts_of(question):
        names, key = {form.casefold() for form in fact.forms}, (fact.other, *fact.forms)
        again = key in seen or (fact.other.casefold() in answers and names & objects)
        if not (again or answers & names or _told(question, fact.forms)):
            seen.add(key)
            objects |= names
            yield fact.forms, fact.other


def _told(question: Question, forms: Sequence[str]) -> bool:
    return Target(tuple(forms), _PLAIN).is_in(question.text)


def _turns(trajectory: Trajectory) -> list[Node]:
    return [trajectory.nodes[index] for index in turn_indices(trajectory)]


def _leads(rollouts: Sequence[Sequence[Node]], target: Target, subject: str = "") -> list[tuple[str, str]]:
    """Of each rollout that names a thing, what it wrote up to there in the turn that did so first, and what came behind.

    Those that have spoken of its ``subject`` before it in that turn, where any has.
    """
    found: list[tuple[str, str]] = []
    about: list[tuple[str, str]] = []
    for turns in rollouts:
        named = [(turn.text, match) for turn in turns if (match := target.pattern.search(turn.text))]
        leads = [(text[: match.start()], text[match.end() : match.end() + _BEHIND]) for text, match in named]
        found += leads[:1]
        about += [lead for lead in leads if subject and subject.casefold() in lead[0].casefold()][:1]
    return about or found


def _commonest(leads: Sequence[tuple[str, str]]) -> Probe | None:
    """The words in which most came to speak of a thing; None: no two in the same."""
    (prefix, count), *_ = Counter(prefix for prefix, _ in leads).most_common(1) or [("", 0)]
    if count < _TWICE:
        return None
    (suffix, _), *_ = Counter(suffix for words, suffix in leads if words == prefix).most_common(1)
    return Probe(prefix=prefix, suffix=suffix)


def _closing(trajectories: Sequence[Trajectory]) -> Probe:
    """How most answered without naming the answer before, where a tenth did so in the same words: they could at any moment.

    Else what most wrote between the end of thinking and their answer; the plain form where no two wrote the same.
    """
    at_once, ends, answered = Counter[tuple[str, str]](), Counter[tuple[str, str]](), 0
    for turn in (turns[-1] for turns in map(_turns, trajectories) if turns and turns[-1].answer):
        assert turn.answer is not None
        answered, at = answered + 1, turn.text.rfind(turn.answer)
        thought = turn.text.rfind("</think>", 0, max(at, 0))
        behind = turn.text[at + len(turn.answer) :][:_BEHIND]
        if at >= 0:
            begin = len(turn.text[:thought].rstrip()) if thought >= 0 else at
            ends[turn.text[begin:at], behind] += 1
            at_once[turn.text[:at], behind] += turn.text.find(turn.answer) == at
    for words, least in ((at_once, max(_TWICE, answered / _SHARE)), (ends, _TWICE)):
        ((prefix, suffix), count), *_ = words.most_common(1) or [(("", ""), 0)]
        if count >= least:
            return Probe(prefix=prefix, suffix=suffix)
    return _PLAIN


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
    # From behind, since what leads to the answer may be long. A token may hold half a character, so that not every place in the
    # ids is one in the text.
    end = len(ids)
    while tokenizer.decode(ids[: end - 1]).startswith(probe.prefix + answer):
        end -= 1
    first = end - 1
    while not probe.prefix.startswith(tokenizer.decode(ids[:first])):
        first -= 1
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
