"""What the figures need of one trajectory: its tokens may be many, these numbers are few.

An answer is the agent's own or none: text of a tool result is never looked at. Knows no judge, but the name of the one whose
verdict counts.
"""

from dataclasses import dataclass

from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import Ending
from sanderling.evaluate.guarding import read_its_question
from sanderling.judge.rules import answer_tokens
from sanderling.judge.verdict import verdict_of
from sanderling.rl.denoise import turn_violations


@dataclass(frozen=True)
class Episode:
    """One attempt, in short."""

    question: str
    attempt: int
    ending: Ending | None
    """None: the record of somebody else, which does not say."""
    correct: bool | None
    """None: unscored."""
    model: str
    world: str
    turns: int
    """On the main branch; rejected attempts at a turn are not turns."""
    calls: int
    searches: int
    visits: int
    sampled_tokens: int | None
    """All that the policy sampled, rejected attempts included; None where a server did not say."""
    context_tokens: int | None
    """Length of the main branch; None for text-level policies."""
    seconds: float
    prompt_tokens: int | None = None
    """Sum over all that the policy was asked; None where nobody counted."""
    vote: str | None = None
    """The answer as answers are told apart when attempts vote; None: no answer."""
    odd_turns: int | None = None
    """Turns that break the grammar; None where the profile is not known."""
    model_seconds: float | None = None
    """That the policy took, rejected attempts at a turn included; None where the record does not say."""
    tool_seconds: float | None = None
    mean_logprob: float | None = None
    """Of all tokens of the main branch's turns, as they were sampled; None where one was not recorded."""
    contaminated: bool | None = None
    """Whether it read its question word for word; None: the question is too short to be told."""


def episode_of(trajectory: Trajectory, judge: str | None = None) -> Episode:
    """What the figures need of a trajectory, with this judge's verdict where one is named."""
    branch = trajectory.branch() if trajectory.leaf is not None else []
    events = [event for node in branch for event in node.events]
    spoken = [node for node in trajectory.nodes if node.kind is NodeKind.TURN]
    heard = [node for node in trajectory.nodes if node.kind is NodeKind.OBSERVATION]
    ids = trajectory.token_ids() if branch else None
    model_seconds = sum(node.seconds for node in spoken) or None  # no clock is so quick: nobody looked at one
    return Episode(
        question=trajectory.question.id,
        attempt=trajectory.seeds.attempt,
        ending=trajectory.ending,
        correct=_verdict(trajectory, judge),
        model=trajectory.model,
        world=trajectory.world,
        turns=sum(node.kind is NodeKind.TURN for node in branch),
        calls=len(events),
        searches=sum(event.role == "search" for event in events),
        visits=sum(event.role == "visit" for event in events),
        sampled_tokens=_sum([_sampled(node) for node in spoken]),
        context_tokens=None if ids is None else len(ids),
        seconds=trajectory.seconds,
        prompt_tokens=_sum([node.prompt_tokens for node in spoken]),
        vote=_vote(trajectory.answer),
        odd_turns=_odd_turns(trajectory),
        model_seconds=model_seconds,
        tool_seconds=None if model_seconds is None else sum(node.seconds for node in heard),
        mean_logprob=_mean_logprob([node for node in branch if node.kind is NodeKind.TURN]),
        contaminated=read_its_question(trajectory),
    )


def _verdict(trajectory: Trajectory, judge: str | None) -> bool | None:
    if judge is None or not (trajectory.ending is None or trajectory.ending.scored):
        return None
    return verdict_of(trajectory, judge)


def _sampled(node: Node) -> int:
    return node.sampled_tokens if node.token_ids is None else len(node.token_ids)


def _sum(counts: list[int]) -> int | None:
    """None where one of them is not known; a turn takes one token at least."""
    return sum(counts) if counts and all(counts) else None


def _mean_logprob(turns: list[Node]) -> float | None:
    found = [node.logprobs for node in turns]
    tokens = sum(len(one) for one in found if one is not None)
    return sum(sum(one) for one in found if one is not None) / tokens if tokens and None not in found else None


def _vote(answer: str | None) -> str | None:
    if answer is None or not answer.strip():
        return None
    return " ".join(answer_tokens(answer)) or answer.strip()


def _odd_turns(trajectory: Trajectory) -> int | None:
    try:
        profile = get_profile(trajectory.profile)
    except UserError:  # a profile of an import, or of somebody's own
        return None
    return sum(bool(violations) for violations in turn_violations(trajectory, profile))
