"""Pages that answer a question, and texts that give its answer away: found by words in what was recorded. Pure functions.

A *gold page* of a question was visited in a trajectory whose own answer holds an accepted one, and the words shown of it hold
an accepted one too. Nobody judged it: a page may name the answer by chance, a page that was never opened is not known, and a
page that says it in other words is missed. Answers of fewer than three characters and yes or no give nothing away by standing
somewhere, and are left out. Words are compared as `world.terms` folds them, in order and side by side; where an answer has
signs that those words lose (C++, -40), as `question_text` has them too.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from sanderling.core.observations import read_observation
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.text import normalised
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_url
from sanderling.world.text import words

_TOO_COMMON = frozenset({"yes", "no", "true", "false", "none", "unknown"})
_FEWEST_CHARS = 3
_SIGNED = re.compile(r"(?:^|(?<=[\s(]))[-\u2212\u2013]\d|[^\W\d_][+#](?!\w)|\+\+")


def telling(answers: Iterable[str]) -> tuple[str, ...]:
    """The answers that say something by standing in a text, each once, in order."""
    told = (answer.strip() for answer in answers)
    return tuple(dict.fromkeys(a for a in told if len(a) >= _FEWEST_CHARS and a.casefold() not in _TOO_COMMON and words(a)))


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether the words of one of the answers stand in the text, side by side and in order."""
    spoken = f" {' '.join(words(text))} "
    found = [answer for answer in answers if f" {' '.join(words(answer))} " in spoken]
    return any(not _SIGNED.search(answer) or f" {normalised(answer)} " in f" {normalised(text)} " for answer in found)


def answered_rightly(trajectory: Trajectory) -> bool:
    """Whether the trajectory's own answer holds an accepted one, as far as words tell."""
    answers = telling(trajectory.question.answers)
    return bool(trajectory.answer and answers) and holds_answer(trajectory.answer or "", answers)


def gold_pages(trajectories: Iterable[Trajectory]) -> Mapping[str, frozenset[str]]:
    """Question id -> canonical URLs of its gold pages; questions without one are not in it."""
    found: dict[str, set[str]] = {}
    for trajectory in trajectories:
        if not answered_rightly(trajectory):
            continue
        answers = telling(trajectory.question.answers)
        for node in trajectory.nodes:
            if node.kind is not NodeKind.OBSERVATION or any(event.status is ToolStatus.OUTAGE for event in node.events):
                continue
            for page in read_observation(node.text).extracts:
                if not page.dead and holds_answer(f"{page.evidence}\n{page.summary}", answers):
                    found.setdefault(trajectory.question.id, set()).add(canonical_url(page.url))
    return {question: frozenset(urls) for question, urls in found.items()}
