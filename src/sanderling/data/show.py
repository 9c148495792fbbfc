"""A trajectory on the terminal: question, turns, observations in short, answer, ending, usage.

Text from models and pages is never taken for markup, and control characters are made visible, so that nothing recorded can move
the cursor of the person who reads it. Main branch in full; rejected attempts are marked where they were made, other branches
mentioned. Files: a store, Parquet, or anything that can be imported. What reinforcement learning credited each turn with can be
told beside it, from the files that a run writes for people (:class:`CreditLine`).
"""

import difflib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.observations import ListedPage, read_observation, unwrap
from sanderling.core.record import Node, NodeKind, Trajectory, turn_indices
from sanderling.core.text import visible
from sanderling.core.types import ToolCall
from sanderling.data.importing import open_trajectories
from sanderling.data.stats import NO_ENDING, call_roles

_SHORT_CHARS = 600
_SHORT_HITS = 5


class CreditParts(Frozen):
    """The parts of each turn's advantage, over a rollout's turns; their sum is what the turn's tokens were trained with."""

    outcome: tuple[float, ...]
    gain: tuple[float, ...]
    penalty: tuple[float, ...]


class CreditLine(Frozen):
    """What each turn of one rollout was credited with in a step of reinforcement learning. Lists run over its turns."""

    id: str
    """The trajectory's."""
    question: str
    group: int
    outcome: float | None
    """What counted in its group; None: nothing did."""
    left_out: str | None
    """Why it was not trained on."""
    tools: tuple[str, ...]
    gains: tuple[float | None, ...]
    """Information gain as it was measured; None: none was."""
    malformed: tuple[bool, ...]
    capped: tuple[bool, ...]
    """Turns that could get no positive credit."""
    credit: CreditParts
    version: int | None = None
    """Updates behind the weights that gains were measured under, the same for a whole group; older files do not say."""

    def facts(self, turn: int) -> list[str]:
        """What is to be said of a turn (from 0), in a few words each."""
        gain, parts = self.gains[turn], {name: value[turn] for name, value in self.credit}
        split = ", ".join(f"{name} {value:+.2f}" for name, value in parts.items() if value)
        facts = [] if gain is None else [f"gain {gain:+.2f}"]
        facts.append(f"credit {sum(parts.values()):+.2f}" + (f" ({split})" if ", " in split else ""))
        return facts + ["malformed"] * self.malformed[turn] + ["no positive credit"] * self.capped[turn]


def credit_of(path: Path, id: str) -> CreditLine:
    """The line of one trajectory. Raises UserError where the file cannot be read or has none."""
    try:
        lines = [CreditLine.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise UserError(
            f"{path} is no file of credit: a run of train rl writes one for each step, in its directory credit/."
        ) from error
    found = next((line for line in lines if line.id == id), None)
    if found is None:
        raise UserError(f"{path} says nothing of trajectory {id!r}: look in the file of the step that used its group.")
    return found


def show_file(
    path: Path | str,
    *,
    id: str | None = None,
    index: int | None = None,
    full: bool = False,
    credit: Path | None = None,
    console: Console | None = None,
) -> None:
    """Print one trajectory of a file: the one with this id, or at this index (from 0), or the first.

    ``credit``: a file of a step of reinforcement learning, whose line of this trajectory is told turn by turn. Raises UserError
    when a file cannot be read or has no such trajectory.
    """
    console = console or Console()
    path = Path(path)
    found = open_trajectories(path)
    chosen, first = _choose(path, found, id, index)
    line = None if credit is None else credit_of(credit, chosen.id)
    if line is not None and len(line.tools) != len(turn_indices(chosen)):
        raise UserError(f"{credit} tells of another rollout named {chosen.id!r}: give a file of the run that made this one.")
    console.print(render(chosen, full=full, credit=line))
    more = not first or next(found, None) is not None
    if more:
        console.print(Text(f"{visible(path.name)} holds more trajectories: choose with --index or --id.", style="dim"))


def _choose(path: Path, found: Iterator[Trajectory], id: str | None, index: int | None) -> tuple[Trajectory, bool]:
    """The wanted trajectory, and whether it is the file's first."""
    ids: list[str] = []
    for number, trajectory in enumerate(found):
        if (trajectory.id == id if id is not None else number == (index or 0)) and (index is None or number == index):
            return trajectory, not ids
        ids.append(trajectory.id)
    if not ids:
        raise UserError(f"{path} holds no trajectory: run the command that fills it first.")
    if id is not None:
        near = difflib.get_close_matches(id, ids, n=1, cutoff=0.0)[0]
        raise UserError(f"{path} holds no trajectory {id!r}: did you mean {near!r}?")
    raise UserError(f"{path} holds {len(ids)} trajectories: give an --index from 0 to {len(ids) - 1}.")


def render(trajectory: Trajectory, *, full: bool = False, credit: CreditLine | None = None) -> RenderableType:
    """The trajectory as a rich renderable. ``full``: nothing is shortened. ``credit``: told beside each turn."""
    parts: list[RenderableType] = [_head(trajectory, full)]
    main = trajectory.path()
    rejected: dict[int | None, list[Node]] = {}
    for node in (node for place, node in enumerate(trajectory.nodes) if node.rejected and place not in main):
        rejected.setdefault(node.parent, []).append(node)
    turn, numbers = 0, {place: number for number, place in enumerate(turn_indices(trajectory))}
    for place in main:
        node = trajectory.nodes[place]
        turn += node.kind is NodeKind.TURN
        said = credit.facts(numbers[place]) if credit is not None and place in numbers else []
        parts += _node(node, turn, full, said)
        parts += [_rejected(attempt, full) for attempt in rejected.get(place, ())]
    parts += _branches(trajectory, main)
    parts.append(_foot(trajectory, full))
    return Group(*parts)


def _short(text: str, full: bool) -> str:
    text = visible(text.strip())
    if full or len(text) <= _SHORT_CHARS:
        return text
    return f"{text[:_SHORT_CHARS].rstrip()} … ({len(text) - _SHORT_CHARS:,} characters more)"


def _head(trajectory: Trajectory, full: bool) -> RenderableType:
    question = trajectory.question
    body = Text(_short(question.text, full))
    if question.answers:
        body.append("\naccepted: " + _short(" | ".join(question.answers), full), style="green")
    return Panel(body, title=Text(visible(trajectory.id)), title_align="left")


def _node(node: Node, turn: int, full: bool, said: Sequence[str]) -> list[RenderableType]:
    match node.kind:
        case NodeKind.TURN:
            return [_turn_rule(node, turn, said), *_turn(node, full)]
        case NodeKind.OBSERVATION:
            return [_observation(node, full)]
        case NodeKind.SYSTEM | NodeKind.QUESTION if not full:
            return []
        case _:
            label = Text(f"{node.kind.value}: ", style="bold yellow" if node.kind is NodeKind.RAW else "bold")
            return [label.append(Text(_short(node.text, full), style="not bold"))]


def _turn_rule(node: Node, turn: int, said: Sequence[str]) -> RenderableType:
    facts = [f"turn {turn}"]
    if node.token_ids is not None:
        facts.append(f"{len(node.token_ids):,} tokens")
    if node.seconds:
        facts.append(f"{node.seconds:.1f} s")
    return Rule(Text(" · ".join((*facts, *said))), align="left", style="dim")


def _turn(node: Node, full: bool) -> list[RenderableType]:
    """Reasoning dimmed, then calls or the answer; the text as it is where the parser found something odd."""
    parts: list[RenderableType] = []
    if node.problems:
        parts.append(Text("odd: " + visible(", ".join(node.problems)), style="yellow"))
    if node.problems or not (node.calls or node.answer is not None):
        parts.append(Text(_short(node.text, full), style="dim"))
    elif node.think:
        parts.append(Text(_short(node.think, full), style="dim"))
    parts += [_call(call, full) for call in node.calls]
    if node.answer is not None:
        parts.append(Panel(Text(_short(node.answer, full)), title="answer", title_align="left", border_style="green"))
    return parts


def _call(call: ToolCall, full: bool) -> Text:
    shown = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in call.arguments.items())
    return Text("→ ", style="bold cyan").append(visible(call.name)).append(f"({_short(shown, full)})", style="not bold")


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
    told = _hits(hits) if hits and not full else _short(unwrap(node.text), full)
    body = Text("← " + visible(", ".join(facts)) + "\n", style="cyan")
    return Padding(body.append(Text(told, style="default")), (0, 0, 0, 2))


def _hits(hits: list[ListedPage]) -> str:
    """The first results, a line each."""
    lines = [f"{visible(hit.title)}  {visible(hit.url)}" for hit in hits[:_SHORT_HITS]]
    return "\n".join(lines + ([f"… ({_count(len(hits) - _SHORT_HITS, 'result')} more)"] if len(hits) > _SHORT_HITS else []))


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _rejected(node: Node, full: bool) -> RenderableType:
    reason = f" ({', '.join(node.problems)})" if node.problems else ""
    body = Text(f"✗ rejected attempt{visible(reason)}\n", style="red").append(Text(_short(node.text, full), style="dim"))
    return Padding(body, (0, 0, 0, 2))


def _branches(trajectory: Trajectory, main: list[int]) -> Iterator[RenderableType]:
    """One line for each branch that is neither the main one nor a rejected attempt."""
    on_main = set(main)
    for leaf in trajectory.leaves():
        if leaf in on_main or trajectory.nodes[leaf].rejected:
            continue
        path = trajectory.path(leaf)
        shared = sum(1 for _ in itertools.takewhile(on_main.__contains__, path))
        yield Text(f"another branch: {len(path) - shared} messages after the first {shared} of the main one", style="magenta")


def _outcome(trajectory: Trajectory) -> str:
    """What a rollout of reinforcement learning was scored; empty for everything else."""
    said = trajectory.meta.get("rl")
    if isinstance(said, dict) and "outcome" in said:
        outcome = said["outcome"]
    elif "held_out" in trajectory.meta:
        outcome = trajectory.meta["held_out"]
    else:
        return ""
    return "unscored" if outcome is None else f"{outcome:.3g}" if isinstance(outcome, int | float) else str(outcome)


def _foot(trajectory: Trajectory, full: bool) -> RenderableType:
    turns, roles, ids = list(trajectory.turns()), Counter(call_roles(trajectory)), trajectory.token_ids()
    others, rejected = roles.total() - roles["search"] - roles["visit"], sum(node.rejected for node in trajectory.nodes)
    usage = [_count(len(turns), "turn"), f"{roles['search']} searches", _count(roles["visit"], "visit")]
    usage += [_count(others, "other call")] if others else []
    usage += [_count(rejected, "rejected attempt")] if rejected else []
    if ids:
        usage.append(f"{sum(len(turn.token_ids or ()) for turn in turns):,} of {len(ids):,} tokens sampled")
    table = Table.grid(padding=(0, 2))
    rows = {
        "ending": trajectory.ending.value if trajectory.ending else NO_ENDING,
        "detail": trajectory.detail,
        "answer": "none" if trajectory.answer is None else trajectory.answer,
        "outcome": _outcome(trajectory),
        "usage": ", ".join(usage) + (f", {trajectory.seconds:.1f} s" if trajectory.seconds else ""),
        "profile": trajectory.profile,
        "model": trajectory.model,
        "world": trajectory.world,
    }
    for name, value in rows.items():
        if value:
            table.add_row(Text(name, style="bold"), Text(_short(value, full)))
    return Panel(table, border_style="dim")
