"""Questions by level, topic or number of hops: what belongs where, and the figures of each part. Pure."""

from collections.abc import Sequence

import numpy as np

from sanderling.core.record import Question
from sanderling.evaluate.result import Estimate, Group, QuestionCounts


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


def members_of(counts: Sequence[QuestionCounts]) -> dict[str, dict[str, np.ndarray]]:
    """Of each grouping's groups which questions are in them, [Q]; a question may be in several."""
    names = dict.fromkeys(name for one in counts for name in one.groups)
    found = {}
    for name in names:
        groups = sorted({group for one in counts for group in one.groups.get(name, ())}, key=_natural)
        found[name] = {group: np.array([group in one.groups.get(name, ()) for one in counts]) for group in groups}
    return found


def _natural(group: str) -> tuple[int, str]:
    return (int(group) if group.isdecimal() else 0, group)


def group_figures(
    estimates: dict[str, Estimate], inside: dict[str, np.ndarray], counts: Sequence[QuestionCounts]
) -> dict[str, Group]:
    """Of each group its figure, and how many attempts it is of."""
    found = {}
    for group, estimate in estimates.items():
        own = [one for one, is_in in zip(counts, inside[group], strict=True) if is_in]
        unscored = sum(one.attempts - one.scored for one in own)
        # Those of other groups do not rest in this figure; they are not missing from it either.
        within = estimate.model_copy(update={"too_few": len(own) - estimate.questions})
        found[group] = Group(pass_at_1=within, attempts=sum(one.attempts for one in own), unscored=unscored)
    return found
