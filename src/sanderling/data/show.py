"""A trajectory on the terminal: question, turns, observations in short, answer, ending, usage.

Text from models and pages is never taken for markup, and control characters are made visible.
"""

import difflib
import json
from collections import Counter
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from sanderling.core.errors import UserError
from sanderling.core.observations import read_observation, unwrap
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.text import visible
from sanderling.data.importing import open_trajectories
from sanderling.data.stats import NO_ENDING, call_roles

_SHORT_CHARS, _SHORT_HITS = 600, 5


def find_trajectory(path: Path, *, id: str | None = None, index: int = 0) -> Trajectory:
    """The trajectory of a file with this id, or at this index. Raises UserError when there is none."""
    ids: list[str] = []
    for found in open_trajectories(path):
        if found.id == id if id is not None else len(ids) == index:
            return found
        ids.append(found.id)
    if id is None or not ids:
        raise UserError(f"{path} holds {len(ids):,} trajectories: give an --index below that.")
    near = difflib.get_close_matches(id, ids, n=1, cutoff=0.0)[0]
    raise UserError(f"{path} holds no trajectory {id!r}: did you mean {near!r}?")


def render(trajectory: Trajectory, *, full: bool = False) -> RenderableType:
    """The main branch; ``full``: nothing is shortened."""
    question = trajectory.question
    head = Text(_short(question.text, full))
    if question.answers:
        head.append("\naccepted: " + _short(" | ".join(question.answers), full), style="green")
    parts: list[RenderableType] = [Panel(head, title=Text(visible(trajectory.id)), title_align="left")]
    turn = 0
    for node in trajectory.branch():
        if node.kind is NodeKind.TURN:
            turn += 1
            parts += _turn(node, turn, full)
        elif node.kind is NodeKind.OBSERVATION:
            parts.append(_observation(node, full))
        elif full or node.kind not in (NodeKind.SYSTEM, NodeKind.QUESTION):
            label = Text(f"{node.kind.value}: ", style="bold yellow" if node.kind is NodeKind.RAW else "bold")
            parts.append(label.append(Text(_short(node.text, full), style="not bold")))
    return Group(*parts, _foot(trajectory, full))


def _short(text: str, full: bool) -> str:
    text = visible(text.strip())
    if full or len(text) <= _SHORT_CHARS:
        return text
    return f"{text[:_SHORT_CHARS].rstrip()} … ({len(text) - _SHORT_CHARS:,} characters more)"


def _turn(node: Node, number: int, full: bool) -> list[RenderableType]:
    """Reasoning dimmed, then calls or the answer; the text as it is where the parser found something odd."""
    facts = [f"turn {number}"] + ([] if node.token_ids is None else [f"{len(node.token_ids):,} tokens"])
    facts += [f"{node.seconds:.1f} s"] if node.seconds else []
    parts: list[RenderableType] = [Rule(Text(" · ".join(facts)), align="left", style="dim")]
    if node.problems:
        parts.append(Text("odd: " + visible(", ".join(node.problems)), style="yellow"))
    whole = node.problems or not (node.calls or node.answer is not None)
    if said := node.text if whole else node.think:
        parts.append(Text(_short(said, full), style="dim"))
    for call in node.calls:
        shown = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in call.arguments.items())
        name = Text("→ ", style="bold cyan").append(visible(call.name))
        parts.append(name.append(f"({_short(shown, full)})", style="not bold"))
    if node.answer is not None:
        parts.append(Panel(Text(_short(node.answer, full)), title="answer", title_align="left", border_style="green"))
    return parts


def _observation(node: Node, full: bool) -> RenderableType:
    hits = [hit for block in read_observation(node.text).blocks for hit in block.hits]
    facts = [f"{len(hits):,} results"] if hits else []
    facts += [f"{event.name}: {event.status.value}" for event in node.events if event.status.value != "ok"]
    facts.append(f"{len(node.text):,} characters")
    lines = [f"{visible(hit.title)}  {visible(hit.url)}" for hit in hits[:_SHORT_HITS]]
    text = "\n".join(lines) if hits and not full else _short(unwrap(node.text), full)
    body = Text("← " + visible(", ".join(facts)) + "\n", style="cyan")
    return Padding(body.append(Text(text, style="default")), (0, 0, 0, 2))


def _foot(trajectory: Trajectory, full: bool) -> RenderableType:
    turns, roles, ids = list(trajectory.turns()), Counter(call_roles(trajectory)), trajectory.token_ids()
    usage = f"{len(turns)} turns, {roles['search']} searches, {roles['visit']} visits"
    usage += f", {sum(node.rejected for node in trajectory.nodes)} rejected attempts"
    usage += f", {sum(len(turn.token_ids or ()) for turn in turns):,} of {len(ids):,} tokens sampled" if ids else ""
    outcome, trained = trajectory.meta.get("held_out", ""), trajectory.meta.get("rl")
    if isinstance(trained, dict):  # what a rollout of reinforcement learning was scored
        outcome = trained.get("outcome", outcome)
    table = Table.grid(padding=(0, 2))
    rows = {
        "ending": trajectory.ending.value if trajectory.ending else NO_ENDING,
        "detail": trajectory.detail,
        "answer": "none" if trajectory.answer is None else trajectory.answer,
        "outcome": "unscored" if outcome is None else f"{outcome:.3g}" if isinstance(outcome, int | float) else str(outcome),
        "usage": usage + (f", {trajectory.seconds:.1f} s" if trajectory.seconds else ""),
        "profile": trajectory.profile,
        "model": trajectory.model,
        "world": trajectory.world,
    }
    for name, value in rows.items():
        if value:
            table.add_row(Text(name, style="bold"), Text(_short(value, full)))
    return Panel(table, border_style="dim")
