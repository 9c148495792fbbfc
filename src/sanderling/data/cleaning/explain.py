"""One trajectory before and after each step of a recipe, for a person: what was removed in red, what came in green.

Text from models and pages is never taken for markup. Long lines are shown where they begin to differ.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, chain, islice, repeat

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from sanderling.core.profiles import Profile
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.text import visible
from sanderling.data.cleaning.cleaner import Cleaner, CleaningRecipe, common_start

_TAGS = re.compile("(</?(?:think|tool_call|answer|tool_response)>)")
_CONTEXT = 1  # unchanged lines shown around a change
_LONGEST, _LEAD = 200, 40  # characters shown of a line, and before the place where two long lines part
_MOST_LINES = 120


def explain(trajectory: Trajectory, recipe: CleaningRecipe, profile: Profile) -> RenderableType:
    """Every step's work on a trajectory."""
    turns = sum(1 for _ in trajectory.turns())
    asked = Text(visible(trajectory.question.text.strip()[:600]))
    asked.append(f"\n{len(trajectory.nodes):,} messages, {turns:,} turns before cleaning", style="dim")
    parts: list[RenderableType] = [Panel(asked, title=Text(visible(trajectory.id)), title_align="left")]
    last: Trajectory | None = trajectory
    for outcome in Cleaner(recipe, profile).steps(trajectory):
        last = outcome.trajectory
        word = "dropped" if last is None else "changed" if outcome.changed else "nothing to do"
        style = {"dropped": "bold red", "changed": "bold yellow"}.get(word, "dim")
        parts.append(Rule(Text(f"{outcome.step}: {word}", style=style), align="left", style="dim"))
        numbers: Counter[str] = Counter()
        for note in outcome.notes:
            numbers[note.code] += note.number
        if numbers:
            parts.append(Text("  " + ", ".join(f"{number:,} {code}" for code, number in numbers.items()), style="cyan"))
        if outcome.reason is not None:
            parts.append(Text(f"  {outcome.reason.value}: {visible(outcome.detail)}".rstrip(": "), style="red"))
            parts.append(Panel(Text(f"dropped by {outcome.step}", style="bold red"), border_style="red"))
        if last is not None and outcome.changed:
            lines = list(islice(_differences(outcome.before.branch(), last.branch()), _MOST_LINES + 1))
            parts.append(Padding(Group(*lines[:_MOST_LINES]), (0, 0, 0, 2)))
            parts += [Text("  … and more", style="dim")] * (len(lines) > _MOST_LINES)
    if last is not None:
        turns = sum(1 for _ in last.turns())
        kept = Text(f"kept: {len(last.nodes):,} messages, {turns:,} turns\nanswer: ", style="green")
        kept.append(visible((last.answer or "none").strip()[:600]), style="default")
        parts.append(Panel(kept, border_style="green"))
    return Group(*parts)


def _differences(before: list[Node], after: list[Node]) -> Iterator[Text]:
    """What is not the same in two branches: message by message where as many stand there as stood, else as one text."""
    turns = list(accumulate(node.kind is NodeKind.TURN for node in before)) or [0]
    said = [[(node.kind, node.text) for node in side] for side in (before, after)]
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, said[0], said[1]).get_opcodes():
        if tag != "equal" and i2 - i1 == j2 - j1:
            for at in range(i2 - i1):
                yield from _compared(_lines([before[i1 + at]]), _lines([after[j1 + at]]), turns[i1 + at])
        elif tag != "equal":
            yield from _compared(_lines(before[i1:i2]), _lines(after[j1:j2]), turns[min(i1, len(turns) - 1)])


def _lines(nodes: list[Node]) -> list[str]:
    """Messages as lines: a heading before each, tags and results on lines of their own; blank lines show nobody anything."""
    lines: list[str] = []
    for node in nodes:
        ids = "" if node.token_ids is None else f" with {len(node.token_ids):,} ids"
        lines.append(f"▸ {node.kind.value}{ids}")
        text = _TAGS.sub(r"\n\1\n", node.text).replace('{"title"', '\n{"title"')
        lines += [line for line in text.splitlines() if line.strip()]
    return lines


def _compared(before: list[str], after: list[str], turn: int) -> Iterator[Text]:
    """Lines removed, added, and around them; of long ones what stands where they part."""

    def line(mark: str, text: str, at: int, style: str) -> Text:
        start = max(at - _LEAD, 0) if len(text) > _LONGEST else 0
        piece = text[start : start + _LONGEST]
        shown = f"{mark} {'…' if start else ''}{visible(piece)}{'…' if start + len(piece) < len(text) else ''}"
        return Text(shown, style=style)

    for group in difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT):
        yield Text(f"⋯ turn {turn}" if turn else "⋯ opening", style="bold dim")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (line(" ", text, 0, "dim") for text in before[i1:i2])
                continue
            starts = [common_start(old, new) for old, new in zip(before[i1:i2], after[j1:j2], strict=False)]
            for mark, side, style in (("-", before[i1:i2], "red"), ("+", after[j1:j2], "green")):
                yield from (line(mark, text, at, style) for text, at in zip(side, chain(starts, repeat(0)), strict=False))
