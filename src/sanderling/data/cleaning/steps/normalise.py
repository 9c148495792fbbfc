"""Normalise to the protocol: the target's system prompt and question, canonical turns, one reply of each kind after a turn.

Turns that the strict grammar accepts and that have their ids stay as they were sampled. A turn that has no canonical form
(no reasoning, no call or answer, both) is left to the step ``malformed``; a message of unknown kind to ``validate``.
"""

import datetime

from pydantic import BaseModel, ConfigDict

from sanderling.core.prompts import render_question
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import Role
from sanderling.data.cleaning.contract import Note, Outcome, Target
from sanderling.data.cleaning.graph import Kept, rebuild, with_text
from sanderling.data.cleaning.responses import joined
from sanderling.data.cleaning.rounds import Round, join, take_apart
from sanderling.data.cleaning.turn_text import canonical, is_well_formed, read_turn


class NormaliseSettings(BaseModel):
    """How the opening is written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: datetime.date = datetime.date(2026, 3, 1)
    """The prompt's date where the recorded prompt names none; DR-Venus' own by default."""
    opening: bool = True
    """Write system prompt and question as the target profile does; False: leave them as they are."""


def normalise(trajectory: Trajectory, settings: NormaliseSettings, target: Target) -> Outcome:
    """The trajectory in the target's protocol."""
    apart = take_apart(trajectory)
    if not apart.rounds:
        return Outcome(trajectory)
    notes: list[Note] = []
    head = _opening(trajectory, apart.head, settings, target, notes) if settings.opening else list(apart.head)
    rounds = [_round(one, target, notes) for one in apart.rounds]
    changed, notes_of_graph = rebuild(trajectory, join(head, rounds), notes)
    if settings.opening and changed.profile != target.profile.name:
        changed = changed.model_copy(update={"profile": target.profile.name})
    return Outcome(changed, notes_of_graph)


def _opening(
    trajectory: Trajectory, head: tuple[Kept, ...], settings: NormaliseSettings, target: Target, notes: list[Note]
) -> list[Kept]:
    """System prompt and question in the target's words, in this order; what else stands before the first turn stays."""
    systems = [kept for kept in head if kept[1].kind is NodeKind.SYSTEM]
    questions = [kept for kept in head if kept[1].kind is NodeKind.QUESTION]
    others = [kept for kept in head if kept[1].kind not in (NodeKind.SYSTEM, NodeKind.QUESTION)]
    recorded = "\n".join(node.text for _, node in (*systems, *questions))
    prompt = target.system_prompt(recorded, settings.date)
    asked = render_question(target.profile, trajectory.question.text) if trajectory.question.text.strip() else None
    opening = [_said(systems, NodeKind.SYSTEM, Role.SYSTEM, prompt, notes)]
    if asked is not None or questions:
        opening.append(_said(questions, NodeKind.QUESTION, Role.USER, asked, notes))
    return [*opening, *others]


def _said(found: list[Kept], kind: NodeKind, role: Role, text: str | None, notes: list[Note]) -> Kept:
    """The first message of this kind with this text (None: its own); a new one where there is none."""
    if not found:
        notes.append(Note(f"{kind.value}_added", after=text or ""))
        return None, Node(parent=None, role=role, kind=kind, text=text or "")
    index, node = found[0]
    new = with_text(node, node.text if text is None else text)
    if new is not node:
        notes.append(Note(f"{kind.value}_replaced", 1, node.text, new.text))
    if len(found) > 1:
        notes.append(Note(f"{kind.value}_repeated", len(found) - 1, found[1][1].text))
    return index, new


def _round(one: Round, target: Target, notes: list[Note]) -> Round:
    return Round(_turn(one.turn, target, notes), _replies(one.replies, notes))


def _turn(kept: Kept, target: Target, notes: list[Note]) -> Kept:
    index, node = kept
    if node.token_ids is not None and is_well_formed(node, target.profile):
        return kept
    found = canonical(node, read_turn(node, target.profile))
    if found is None:
        return kept
    if found.node.text != node.text:
        same = "".join(found.node.text.split()) == "".join(node.text.split())
        notes.append(Note("turns_respaced" if same else "turns_rewritten", 1, node.text, found.node.text))
    if found.into_reasoning:
        notes.append(Note("text_into_reasoning", 1, "\n".join(found.into_reasoning)))
    if found.cut:
        notes.append(Note("invented_responses_cut", 1, found.cut))
    return index, found.node


def _replies(replies: tuple[Kept, ...], notes: list[Note]) -> tuple[Kept, ...]:
    """At most one observation, then at most one hint, each in its tags; then whatever else there is."""
    kinds = (NodeKind.OBSERVATION, NodeKind.HINT)
    new = [_merged([kept for kept in replies if kept[1].kind is kind], notes) for kind in kinds]
    others = [kept for kept in replies if kept[1].kind not in kinds]
    return tuple(kept for kept in (*new, *others) if kept is not None)


def _merged(found: list[Kept], notes: list[Note]) -> Kept | None:
    if not found:
        return None
    index, node = found[0]
    if len(found) == 1 and node.token_ids is not None:
        return found[0]
    nodes = [one for _, one in found]
    new = with_text(node, joined([one.text for one in nodes]), role=Role.USER)
    if len(nodes) > 1:
        notes.append(Note("responses_joined", len(nodes) - 1, node.text, new.text))
        new = new.model_copy(
            update={
                "events": tuple(event for one in nodes for event in one.events),
                "seconds": sum(one.seconds for one in nodes),
            }
        )
    elif new.text != node.text:
        notes.append(Note("responses_wrapped", 1, node.text, new.text))
    return index, new
