"""One trajectory before and after each step of a recipe, for a person: what was removed in red, what came in green.

Text from models and pages is never taken for markup, and control characters are made visible. Long lines are shown where they
begin to differ.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, islice

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from sanderling.core.profiles import Profile
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.text import visible
from sanderling.data.cleaning.recipe import Cleaner, CleaningRecipe, Outcome
from sanderling.data.cleaning.report import common_start

_TAGS = re.compile("(</?(?:think|tool_call|answer|tool_response)>)")
_CONTEXT = 1
"""Unchanged lines shown around a change."""
_LONGEST, _LEAD = 200, 40
"""Characters shown of a line, and before the place where two long lines part."""
_MOST_LINES = 120


def explain(trajectory: Trajectory, recipe: CleaningRecipe, profile: Profile) -> RenderableType:
    """Every step's work on a trajectory."""
    turns = sum(1 for _ in trajectory.turns())
    asked = Text(visible(trajectory.question.text.strip()[:600]))
    asked.append(f"\n{len(trajectory.nodes):,} messages, {turns:,} turns before cleaning", style="dim")
    parts: list[RenderableType] = [Panel(asked, title=Text(visible(trajectory.id)), title_align="left")]
    last: Trajectory | None = trajectory
    for outcome in Cleaner(recipe, profile).steps(trajectory):
        parts += _shown(outcome)
        last = outcome.trajectory
        if last is None:
            parts.append(Panel(Text(f"dropped by {outcome.step}", style="bold red"), border_style="red"))
    if last is not None:
        turns = sum(1 for _ in last.turns())
        kept = Text(f"kept: {len(last.nodes):,} messages, {turns:,} turns\nanswer: ", style="green")
        kept.append(visible((last.answer or "none").strip()[:600]), style="default")
        parts.append(Panel(kept, border_style="green"))
    return Group(*parts)


def _shown(outcome: Outcome) -> Iterator[RenderableType]:
    dropped = outcome.trajectory is None
    word = "dropped" if dropped else "changed" if outcome.changed else "nothing to do"
    style = "bold red" if dropped else "bold yellow" if outcome.changed else "dim"
    yield Rule(Text(f"{outcome.step}: {word}", style=style), align="left", style="dim")
    numbers: Counter[str] = Counter()
    for note in outcome.notes:
        numbers[note.code] += note.number
    if numbers:
        yield Text("  " + ", ".join(f"{number:,} {code}" for code, number in numbers.items()), style="cyan")
    if outcome.reason is not None:
        yield Text(f"  {outcome.reason.value}: {visible(outcome.detail)}".rstrip(": "), style="red")
    if outcome.trajectory is not None and outcome.changed:
        lines = list(islice(_differences(outcome.before.branch(), outcome.trajectory.branch()), _MOST_LINES + 1))
        yield Padding(Group(*lines[:_MOST_LINES]), (0, 0, 0, 2))
        if len(lines) > _MOST_LINES:
            yield Text("  … and more", style="dim")


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
                yield from (_line(" ", line, 0, "dim") for line in before[i1:i2])
                continue
            starts = [common_start(old, new) for old, new in zip(before[i1:i2], after[j1:j2], strict=False)]
            for mark, side, style in (("-", before[i1:i2], "red"), ("+", after[j1:j2], "green")):
                places = [*starts, *[0] * len(side)]
                yield from (_line(mark, line, at, style) for line, at in zip(side, places, strict=False))


def _line(mark: str, text: str, at: int, style: str) -> Text:
    start = max(at - _LEAD, 0) if len(text) > _LONGEST else 0
    piece = text[start : start + _LONGEST]
    shown = f"{mark} {'…' if start else ''}{visible(piece)}{'…' if start + len(piece) < len(text) else ''}"
    return Text(shown, style=style)
