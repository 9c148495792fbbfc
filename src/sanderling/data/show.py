"""A trajectory on the terminal: question, turns, observations in short, answer, ending, usage.

Text from models and pages is never taken for markup, and control characters are made visible. What reinforcement learning
credited each turn with can be told beside it, from the files that a run writes for people (:class:`CreditLine`).
"""

import difflib
import itertools
import json
from collections import Counter
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from sanderling.core.errors import UserError
from sanderling.core.observations import read_observation, unwrap
from sanderling.core.record import CreditLine, Node, NodeKind, Trajectory, turn_indices
from sanderling.core.text import visible
from sanderling.data.importing import open_trajectories
from sanderling.data.stats import NO_ENDING, call_roles

_SHORT_CHARS, _SHORT_HITS = 600, 5


def show_file(
    path: Path,
    *,
    id: str | None = None,
    index: int | None = None,
    full: bool = False,
    credit: Path | None = None,
    console: Console | None = None,
) -> None:
    """Print the trajectory with this id, or at this index, or the first; ``credit``: of a step of RL. Raises UserError."""
    console, found = console or Console(), open_trajectories(path)
    ids: list[str] = []
    for number, chosen in enumerate(found):
        if (chosen.id == id if id is not None else number == (index or 0)) and (index is None or number == index):
            break
        ids.append(chosen.id)
    else:
        if not ids:
            raise UserError(f"{path} holds no trajectory: run the command that fills it first.")
        if id is not None:
            near = difflib.get_close_matches(id, ids, n=1, cutoff=0.0)[0]
            raise UserError(f"{path} holds no trajectory {id!r}: did you mean {near!r}?")
        raise UserError(f"{path} holds {len(ids)} trajectories: give an --index from 0 to {len(ids) - 1}.")
    line = None if credit is None else _credit_of(credit, chosen)
    console.print(render(chosen, full=full, credit=line))
    if ids or next(found, None) is not None:
        console.print(Text(f"{visible(path.name)} holds more trajectories: choose with --index or --id.", style="dim"))


def _credit_of(path: Path, trajectory: Trajectory) -> CreditLine:
    """The line of one trajectory. Raises UserError where the file cannot be read or has none."""
    try:
        lines = [CreditLine.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise UserError(
            f"{path} is no file of credit: a run of train rl writes one for each step, in its directory credit/."
        ) from error
    id = trajectory.id
    found = next((line for line in lines if line.id == id), None)
    if found is None:
        raise UserError(f"{path} says nothing of trajectory {id!r}: look in the file of the step that used its group.")
    if len(found.tools) != len(turn_indices(trajectory)):
        raise UserError(f"{path} tells of another rollout named {id!r}: give a file of the run that made this one.")
    return found


def render(trajectory: Trajectory, *, full: bool = False, credit: CreditLine | None = None) -> RenderableType:
    """The main branch with rejected attempts where they were made; ``full``: nothing is shortened."""
    question, nodes, main = trajectory.question, trajectory.nodes, trajectory.path()
    head = Text(_short(question.text, full))
    if question.answers:
        head.append("\naccepted: " + _short(" | ".join(question.answers), full), style="green")
    parts: list[RenderableType] = [Panel(head, title=Text(visible(trajectory.id)), title_align="left")]
    numbers = {place: number for number, place in enumerate(turn_indices(trajectory))}
    turn = 0
    for place in main:
        node = nodes[place]
        if node.kind is NodeKind.TURN:
            turn += 1
            facts = credit.facts(numbers[place]) if credit is not None and place in numbers else []
            parts += _turn(node, [f"turn {turn}"], facts, full)
        elif node.kind is NodeKind.OBSERVATION:
            parts.append(_observation(node, full))
        elif full or node.kind not in (NodeKind.SYSTEM, NodeKind.QUESTION):
            label = Text(f"{node.kind.value}: ", style="bold yellow" if node.kind is NodeKind.RAW else "bold")
            parts.append(label.append(Text(_short(node.text, full), style="not bold")))
        for at, attempt in enumerate(nodes):
            if attempt.rejected and attempt.parent == place and at not in main:
                reason = f" ({', '.join(attempt.problems)})" if attempt.problems else ""
                body = Text(f"✗ rejected attempt{visible(reason)}\n", style="red")
                parts.append(Padding(body.append(Text(_short(attempt.text, full), style="dim")), (0, 0, 0, 2)))
    for leaf in trajectory.leaves():
        if leaf not in main and not nodes[leaf].rejected:
            path = trajectory.path(leaf)
            shared = sum(1 for _ in itertools.takewhile(main.__contains__, path))
            told = f"another branch: {len(path) - shared} messages after the first {shared} of the main one"
            parts.append(Text(told, style="magenta"))
    return Group(*parts, _foot(trajectory, full))


def _short(text: str, full: bool) -> str:
    text = visible(text.strip())
    if full or len(text) <= _SHORT_CHARS:
        return text
    return f"{text[:_SHORT_CHARS].rstrip()} … ({len(text) - _SHORT_CHARS:,} characters more)"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _turn(node: Node, facts: list[str], credit: list[str], full: bool) -> list[RenderableType]:
    """Reasoning dimmed, then calls or the answer; the text as it is where the parser found something odd."""
    facts += [] if node.token_ids is None else [f"{len(node.token_ids):,} tokens"]
    facts += [f"{node.seconds:.1f} s"] if node.seconds else []
    parts: list[RenderableType] = [Rule(Text(" · ".join((*facts, *credit))), align="left", style="dim")]
    if node.problems:
        parts.append(Text("odd: " + visible(", ".join(node.problems)), style="yellow"))
    if node.problems or not (node.calls or node.answer is not None):
        parts.append(Text(_short(node.text, full), style="dim"))
    elif node.think:
        parts.append(Text(_short(node.think, full), style="dim"))
    for call in node.calls:
        shown = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in call.arguments.items())
        told = Text("→ ", style="bold cyan").append(visible(call.name))
        parts.append(told.append(f"({_short(shown, full)})", style="not bold"))
    if node.answer is not None:
        parts.append(Panel(Text(_short(node.answer, full)), title="answer", title_align="left", border_style="green"))
    return parts


def _observation(node: Node, full: bool) -> RenderableType:
    reading = read_observation(node.text)
    facts: list[str] = []
    hits = [hit for block in reading.blocks for hit in block.hits]
    if reading.blocks:
        facts.append(f"{_count(len(hits), 'result')} in {_count(len(reading.blocks), 'list')}")
    if reading.extracts:
        facts.append(_count(len(reading.extracts), "page"))
    facts += [f"{event.name}: {event.status.value}" for event in node.events if event.status.value != "ok"]
    facts.append(f"{len(node.text):,} characters")
    lines = [f"{visible(hit.title)}  {visible(hit.url)}" for hit in hits[:_SHORT_HITS]]
    lines += [f"… ({_count(len(hits) - _SHORT_HITS, 'result')} more)"] if len(hits) > _SHORT_HITS else []
    told = "\n".join(lines) if hits and not full else _short(unwrap(node.text), full)
    body = Text("← " + visible(", ".join(facts)) + "\n", style="cyan")
    return Padding(body.append(Text(told, style="default")), (0, 0, 0, 2))


def _foot(trajectory: Trajectory, full: bool) -> RenderableType:
    turns, roles, ids = list(trajectory.turns()), Counter(call_roles(trajectory)), trajectory.token_ids()
    others, rejected = roles.total() - roles["search"] - roles["visit"], sum(node.rejected for node in trajectory.nodes)
    usage = [_count(len(turns), "turn"), f"{roles['search']} searches", _count(roles["visit"], "visit")]
    usage += [_count(others, "other call")] if others else []
    usage += [_count(rejected, "rejected attempt")] if rejected else []
    if ids:
        usage.append(f"{sum(len(turn.token_ids or ()) for turn in turns):,} of {len(ids):,} tokens sampled")
    outcome, trained = trajectory.meta.get("held_out", ""), trajectory.meta.get("rl")
    if isinstance(trained, dict):  # what a rollout of reinforcement learning was scored
        outcome = trained.get("outcome", outcome)
    if isinstance(outcome, int | float):
        outcome = f"{outcome:.3g}"
    table = Table.grid(padding=(0, 2))
    rows = {
        "ending": trajectory.ending.value if trajectory.ending else NO_ENDING,
        "detail": trajectory.detail,
        "answer": "none" if trajectory.answer is None else trajectory.answer,
        "outcome": "unscored" if outcome is None else str(outcome),
        "usage": ", ".join(usage) + (f", {trajectory.seconds:.1f} s" if trajectory.seconds else ""),
        "profile": trajectory.profile,
        "model": trajectory.model,
        "world": trajectory.world,
    }
    for name, value in rows.items():
        if value:
            table.add_row(Text(name, style="bold"), Text(_short(value, full)))
    return Panel(table, border_style="dim")
