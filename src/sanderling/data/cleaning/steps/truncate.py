"""LiteResearcher's cut: nothing of the last turn is kept after its ``</answer>``.

An answer tag within reasoning is a mention and cuts nothing. What else the tolerant parser finds odd in the turn stays.
"""

from sanderling.core.record import NodeKind, Trajectory
from sanderling.data.cleaning.contract import Note, Outcome, Target
from sanderling.data.cleaning.graph import main_branch, rebuild, with_text
from sanderling.data.cleaning.turn_text import begins_inside, written_out

_THINK, _THINK_END, _END = "<think>", "</think>", "</answer>"


def truncate(trajectory: Trajectory, target: Target) -> Outcome:
    """The trajectory, its last turn cut at the end of its first answer."""
    branch = main_branch(trajectory)
    places = [place for place, (_, node) in enumerate(branch) if node.kind is NodeKind.TURN]
    if not places:
        return Outcome(trajectory)
    index, node = branch[places[-1]]
    end = _end_of_answer(node.text, inside=begins_inside(node, target.profile))
    if end is None or not node.text[end:].strip():
        return Outcome(trajectory)
    whole = written_out(node, target.profile)
    text = whole[: len(whole) - len(node.text) + end]
    branch[places[-1]] = (index, with_text(node, text, problems=()))
    notes = [Note("text_after_answer_cut", 1, node.text[end:])]
    return Outcome(*rebuild(trajectory, branch, notes))


def _end_of_answer(text: str, *, inside: bool) -> int | None:
    """Index after the first closed answer outside reasoning."""
    start = 0
    if inside or _THINK in text:
        closed = text.find(_THINK_END)
        if closed < 0:
            return None
        start = closed + len(_THINK_END)
    opened = text.find("<answer>", start)
    end = text.find(_END, opened) if opened >= 0 else -1
    return None if end < 0 else end + len(_END)
