"""LiteResearcher's short answers: a right answer that is long becomes the reference, and the reasoning stays as it is.

Right is what a judge said. Without a verdict an answer counts as right when an accepted answer of some length stands in it,
word for word but for case, punctuation and accents; numbers stand alone, so ``12`` is not in ``2012``, nor in ``-12`` or
``1.12``, and ``C`` is not in ``C++``.
"""

import re
import unicodedata

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.text import MINUS, SUFFIX, folded
from sanderling.data.cleaning.contract import Note, Outcome, Target
from sanderling.data.cleaning.graph import main_branch, rebuild
from sanderling.data.cleaning.turn_text import canonical, read_turn

_WORDS = re.compile(rf"{MINUS}?\w+(?:(?<=\d)\.(?=\d)\w+)*{SUFFIX}")


class ShortAnswerSettings(BaseModel):
    """What is long, and what is found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    most_characters: int = Field(default=100, ge=1)
    """Longest answer that stays."""
    least_reference: int = Field(default=2, ge=1)
    """Shortest accepted answer, in letters and digits, that is looked for where there is no verdict."""


def shorten_answer(trajectory: Trajectory, settings: ShortAnswerSettings, target: Target) -> Outcome:
    """The trajectory with the reference for its answer, where that is right and long."""
    branch = main_branch(trajectory)
    node = branch[-1][1] if branch else None
    if node is None or node.kind is not NodeKind.TURN or node.answer is None or node.calls:
        return Outcome(trajectory)
    if len(node.answer) <= settings.most_characters:
        return Outcome(trajectory)
    reference = _reference(trajectory, node.answer, settings, target)
    new = None if reference is None else _answering(node, reference, target)
    if reference is None or new is None:
        return Outcome(trajectory, (Note("long_answers_left", 1, node.answer),))
    notes = [Note("answers_shortened", 1, node.answer, reference)]
    return Outcome(*rebuild(trajectory, [*branch[:-1], (branch[-1][0], new)], notes))


def _reference(trajectory: Trajectory, answer: str, settings: ShortAnswerSettings, target: Target) -> str | None:
    """The accepted answer to put in place; None where the answer is not known to be right, or none is shorter."""
    accepted = [text.strip() for text in trajectory.question.answers]
    accepted = [text for text in accepted if text and len(text) <= settings.most_characters]
    verdict = target.is_right(trajectory)
    if not accepted or verdict is False:
        return None
    said = _words(answer)
    found = [text for text in accepted if _long_enough(text, settings) and f" {_words(text)} " in f" {said} "]
    if found:
        return max(found, key=len)
    return accepted[0] if verdict else None


def _long_enough(text: str, settings: ShortAnswerSettings) -> bool:
    return len(_words(text).replace(" ", "")) >= settings.least_reference


def _words(text: str) -> str:
    plain = unicodedata.normalize("NFKD", folded(text))
    return " ".join(_WORDS.findall("".join(char for char in plain if not unicodedata.combining(char))))


def _answering(node: Node, answer: str, target: Target) -> Node | None:
    """The turn giving another answer."""
    parsed = read_turn(node, target.profile)
    if parsed.answer is None or parsed.left:
        return None
    found = canonical(node, type(parsed)(parsed.think, (), answer, parsed.problems))
    return None if found is None else found.node
