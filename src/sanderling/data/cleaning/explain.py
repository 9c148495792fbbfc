"""One trajectory before and after each step of a recipe, for a person: what was removed in red, what came in green.

Text from models and pages is never taken for markup, and control characters are made visible. Long lines are shown where they
begin to differ. Knows no files.
"""

import difflib
import re
from collections.abc import Iterator
from itertools import accumulate, islice

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.text import visible
from sanderling.data.cleaning.contract import Target
from sanderling.data.cleaning.recipe import CleaningRecipe
from sanderling.data.cleaning.report import common_start
from sanderling.data.cleaning.run import Cleaner, Stage

_TAGS = re.compile("(</?(?:think|tool_call|answer|tool_response)>)")
_CONTEXT = 1
"""Unchanged lines shown around a change."""
_LONGEST = 200
_LEAD = 40
"""Characters shown before the place where two long lines part."""
_MOST_LINES = 120
"""Lines shown of one step's changes."""


def explain(trajectory: Trajectory, recipe: CleaningRecipe, target: Target) -> RenderableType:
    """Every step's work on a trajectory."""
    parts: list[RenderableType] = [_head(trajectory)]
    stages = list(Cleaner(recipe, target).stages(trajectory))
    for stage in stages:
        parts += _stage(stage)
    parts.append(_foot(trajectory, stages))
    return Group(*parts)


def _head(trajectory: Trajectory) -> RenderableType:
    turns = sum(1 for _ in trajectory.turns())
    body = Text(visible(trajectory.question.text.strip()[:600]))
    body.append(f"\n{len(trajectory.nodes):,} messages, {turns:,} turns before cleaning", style="dim")
    return Panel(body, title=Text(visible(trajectory.id)), title_align="left")


def _stage(stage: Stage) -> Iterator[RenderableType]:
    dropped = stage.outcome.trajectory is None
    word = "dropped" if dropped else "changed" if stage.changed else "nothing to do"
    style = "bold red" if dropped else "bold yellow" if stage.changed else "dim"
    yield Rule(Text(f"{stage.step.value}: {word}", style=style), align="left", style="dim")
    yield from _told(stage)
    if stage.outcome.trajectory is not None and stage.changed:
        lines = list(islice(_differences(stage.before.branch(), stage.outcome.trajectory.branch()), _MOST_LINES + 1))
        yield Padding(Group(*lines[:_MOST_LINES]), (0, 0, 0, 2))
        if len(lines) > _MOST_LINES:
            yield Text("  … and more", style="dim")


def _told(stage: Stage) -> Iterator[Text]:
    """The step's notes, added up, and the reason of a drop."""
    numbers: dict[str, int] = {}
    for note in stage.outcome.notes:
        numbers[note.code] = numbers.get(note.code, 0) + note.number
    if numbers:
        yield Text("  " + ", ".join(f"{number:,} {code}" for code, number in numbers.items()), style="cyan")
    if stage.outcome.reason is not None:
        told = f"  {stage.outcome.reason.value}: {visible(stage.outcome.detail)}".rstrip(": ")
        yield Text(told, style="red")


def _foot(trajectory: Trajectory, stages: list[Stage]) -> RenderableType:
    last = stages[-1].outcome.trajectory if stages else trajectory
    if last is None:
        return Panel(Text(f"dropped by {stages[-1].step.value}", style="bold red"), border_style="red")
    turns = sum(1 for _ in last.turns())
    body = Text(f"kept: {len(last.nodes):,} messages, {turns:,} turns\nanswer: ", style="green")
    return Panel(body.append(visible((last.answer or "none").strip()[:600]), style="default"), border_style="green")


def _differences(before: list[Node], after: list[Node]) -> Iterator[Text]:
    """What is not the same in two branches: message by message where as many stand there as stood, else as one text."""
    turns = list(accumulate(node.kind is NodeKind.TURN for node in before))
    said = [[(node.kind, node.text) for node in side] for side in (before, after)]
    matcher = difflib.SequenceMatcher(None, said[0], said[1])
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        if i2 - i1 == j2 - j1:
            for at, (old, new) in enumerate(zip(before[i1:i2], after[j1:j2], strict=True), start=i1):
                yield from _compared(_lines([old]), _lines([new]), turns[at])
        else:
            at = min(i1, len(turns) - 1)
            yield from _compared(_lines(before[i1:i2]), _lines(after[j1:j2]), turns[at] if turns else 0)


def _lines(nodes: list[Node]) -> list[str]:
    """Messages as lines: a heading before each, tags and results on lines of their own, no blank lines.

    So a change of white space alone, which teaches nobody anything, is not shown.
    """
    lines: list[str] = []
    for node in nodes:
        ids = "" if node.token_ids is None else f" with {len(node.token_ids):,} ids"
        lines.append(f"▸ {node.kind.value}{ids}")
        text = _TAGS.sub(r"\n\1\n", node.text).replace('{"title"', '\n{"title"')
        lines += [line for line in text.splitlines() if line.strip()]
    return lines


def _compared(before: list[str], after: list[str], turn: int) -> Iterator[Text]:
    for group in difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT):
        yield Text(f"⋯ turn {turn}" if turn else "⋯ opening", style="bold dim")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from _marked(" ", before[i1:i2], [], "dim")
                continue
            starts = [common_start(old, new) for old, new in zip(before[i1:i2], after[j1:j2], strict=False)]
            yield from _marked("-", before[i1:i2], starts, "red")
            yield from _marked("+", after[j1:j2], starts, "green")


def _marked(mark: str, lines: list[str], starts: list[int], style: str) -> Iterator[Text]:
    for place, line in enumerate(lines):
        yield _line(mark, line, starts[place] if place < len(starts) else 0, style)


def _line(mark: str, text: str, at: int, style: str) -> Text:
    """One line, cut to where it differs when it is long."""
    start = max(at - _LEAD, 0) if len(text) > _LONGEST else 0
    piece = text[start : start + _LONGEST]
    shown = f"{mark} {'…' if start else ''}{visible(piece)}{'…' if start + len(piece) < len(text) else ''}"
    return Text(shown, style=style)
